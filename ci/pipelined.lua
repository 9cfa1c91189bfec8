-- wrk -s: every write carries 16 requests, as a pipelining client would send them.
local batch

function init()
    local requests = {}
    for number = 1, 16 do
        requests[number] = wrk.format("GET", "/")
    end
    batch = table.concat(requests)
end

function request()
    return batch
end
