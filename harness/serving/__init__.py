"""A calibrated PRM behind HTTP, for clients of OpenAI and of vLLM.

    access   names, pages and the token that requests must have
    bodies   what both forms share: messages, limits, and errors as replies
    pooling  vLLM's form of a PRM: the trajectories of a request, and their rewards as a reply
    chat     OpenAI's form of an LLM: the question of a request, and its answer as a reply or as a stream
    app      the addresses of the server, the gate before them, and the server from its start to its end

FastAPI and uvicorn are the extra ``serve``. Only `prmcal.harness.cli` imports this room.
"""
