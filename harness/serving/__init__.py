"""A calibrated PRM behind HTTP, for clients of OpenAI and of vLLM.

    access   names, pages and the token that requests must have
    bodies   what both forms share: messages, limits, and errors as replies
    forms    OpenAI's form of an LLM and vLLM's form of a PRM: requests, replies and streams
    app      the addresses of the server, the gate before them, and the server from its start to its end

FastAPI and uvicorn are the extra ``serve``. Only `prmcal.harness.cli` imports this room.
"""
