"""The page of a run of many queries: a row a query, and a page a query in a folder beside it."""
