"""A calibrated PRM behind HTTP.

    limits     how large and how many requests may be
    bodies     what requests and replies hold
    refusals   errors as replies
    gate       the limits on bodies and on concurrent requests
    streaming  a solution as it comes, one event on a line
    ending     requests that still run when the server ends are told so
    app        the addresses of the server
    server     the server from its start to its end

FastAPI and uvicorn are the extra ``serve``. Only `prmcal.harness.cli.serve` imports this room.
"""
