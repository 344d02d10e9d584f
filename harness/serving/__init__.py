"""A calibrated PRM behind HTTP, for clients of vLLM.

    access   names, pages and the token that requests must have
    pooling  vLLM's form of a PRM: the trajectories of a request, and the rows of a reply
    app      the addresses of the server, the gate before them, and the server from its start to its end

FastAPI and uvicorn are the extra ``serve``. Only `prmcal.harness.cli` imports this room.
"""
