"""The MCP server that mcp_notes.py starts: notes in memory, to search and to add to."""

from mcp.server import MCPServer

NOTES = [
    "The concert is on 14 November at seven in St Mark's. Doors open at half past six.",
    "The hall's piano was tuned in June. Before the concert it has to be tuned again; nobody has called the tuner yet.",
    "Programme: Tallis, Stanford and Britten before the interval, folk songs after it. About 75 minutes of music.",
    "Soloist: Ines Wolff sings the alto part in the Britten. Her contract is signed; her train is not booked.",
    "Posters are printed. Two volunteers put them up in town; the church's own board still has the old one.",
    "Tickets cost 12 euros, 6 for students. 140 of 220 are sold. The advance sale closes on 12 November.",
    "The final rehearsal is on 13 November at six in the church, with the soloist and in concert dress.",
    "Programme booklets are still open: the translations of the folk songs are missing, and the printer needs a week.",
]

server = MCPServer("notes", log_level="WARNING")


@server.tool()
def search_notes(words: str) -> str:
    """Find the notes that have any of some words in them, those with most of them first.

    Args:
        words: What to look for.
    """
    wanted = {word for word in words.lower().split() if len(word) > 2}
    counts = [(sum(word in note.lower() for word in wanted), note) for note in NOTES]
    matches = [note for count, note in sorted(counts, key=lambda pair: -pair[0]) if count]
    return "\n\n".join(matches) or f"No results for {words!r}."


@server.tool()
def add_note(text: str) -> str:
    """Add a note.

    Args:
        text: What to note down.
    """
    NOTES.append(text)
    return f"Noted; there are {len(NOTES)} notes now."


if __name__ == "__main__":
    server.run("stdio")
