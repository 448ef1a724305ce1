"""The embedded model, search tool, corpus and judge: a self-test that runs the whole way without any endpoint.

Small on purpose. The parts are real (the model searches and writes from what it found, the judge measures), but
they are not language models: a ranking made with them says nothing of any LLM.
"""
