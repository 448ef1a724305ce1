"""What a model server is: its address and key, the HTTP client, errors, streams, prices.

Agent calls and judge calls both go through here. This room must not know what is asked, or why.
"""
