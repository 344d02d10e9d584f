"""A calibrated PRM behind HTTP.

    access  names, pages and the token that requests must have
    bodies  requests and replies, their limits, and errors as replies
    app     the addresses of the server, the gate before them, and the server from its start to its end

FastAPI and uvicorn are the extra ``serve``. Only `prmcal.harness.cli` imports this room.
"""
