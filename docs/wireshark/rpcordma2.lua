-- SPDX-License-Identifier: BSD-3-Clause
--[[
RPC-over-RDMA version 2 (draft-ietf-nfsv4-rpcrdma-version-two-07). Wireshark itself dissects version 1 only.

A Send of iWARP is a message of version 2 if its second word is 2, its fourth word is one of the header types of the draft's
table 2, and its header can be parsed to the end. If the payload is a whole message without reduced items, it goes to Wireshark's RPC
dissector. If that does not know the program, and in all other cases, the payload is shown as octets. The fields are rpcordma2.*.
README.md beside this file explains the installation.
]]

local proto = Proto("rpcordma2", "RPC over RDMA version 2")
local f = proto.fields

local ERROR, GRANT, CONNPROP_MIDDLE, CONNPROP_FINAL = 4, 5, 6, 7
local CALL_EXTERNAL, CALL_MIDDLE, CALL_INLINE = 8, 9, 10
local REPLY_EXTERNAL, REPLY_MIDDLE, REPLY_INLINE = 11, 12, 13
local types = {
	[ERROR] = "RDMA2_ERROR",
	[GRANT] = "RDMA2_GRANT",
	[CONNPROP_MIDDLE] = "RDMA2_CONNPROP_MIDDLE",
	[CONNPROP_FINAL] = "RDMA2_CONNPROP_FINAL",
	[CALL_EXTERNAL] = "RDMA2_CALL_EXTERNAL",
	[CALL_MIDDLE] = "RDMA2_CALL_MIDDLE",
	[CALL_INLINE] = "RDMA2_CALL_INLINE",
	[REPLY_EXTERNAL] = "RDMA2_REPLY_EXTERNAL",
	[REPLY_MIDDLE] = "RDMA2_REPLY_MIDDLE",
	[REPLY_INLINE] = "RDMA2_REPLY_INLINE",
}
local errors = {
	[1] = "RDMA2_ERR_VERS",
	[2] = "RDMA2_ERR_BAD_XDR",
	[3] = "RDMA2_ERR_BAD_PROPVAL",
	[4] = "RDMA2_ERR_INVAL_HTYPE",
	[5] = "RDMA2_ERR_INVAL_CONT",
	[6] = "RDMA2_ERR_READ_CHUNKS",
	[7] = "RDMA2_ERR_WRITE_CHUNKS",
	[8] = "RDMA2_ERR_SEGMENTS",
	[9] = "RDMA2_ERR_WRITE_RESOURCE",
	[10] = "RDMA2_ERR_REPLY_RESOURCE",
	[11] = "RDMA2_ERR_VERS_MISMATCH",
	[100] = "RDMA2_ERR_SYSTEM",
}
local props = {
	[1] = "Maximum Send Size",
	[2] = "Receive Buffer Size",
	[3] = "Maximum Segment Size",
	[4] = "Maximum Segment Count",
	[5] = "Reverse-Direction Support",
	[6] = "Host Authentication Message",
}
local HOSTAUTH = 6

f.xid = ProtoField.uint32("rpcordma2.xid", "XID", base.HEX)
f.vers = ProtoField.uint32("rpcordma2.version", "Version", base.DEC)
f.credit = ProtoField.uint32("rpcordma2.credit", "Credit", base.DEC)
f.htype = ProtoField.uint32("rpcordma2.htype", "Header type", base.DEC, types)
f.err = ProtoField.uint32("rpcordma2.err", "Error", base.DEC, errors)
f.err_low = ProtoField.uint32("rpcordma2.err.vers_low", "Lowest version", base.DEC)
f.err_high = ProtoField.uint32("rpcordma2.err.vers_high", "Highest version", base.DEC)
f.err_max = ProtoField.uint32("rpcordma2.err.max", "Maximum", base.DEC)
f.err_index = ProtoField.uint32("rpcordma2.err.chunk_index", "Write chunk", base.DEC)
f.err_needed = ProtoField.uint32("rpcordma2.err.length_needed", "Octets needed", base.DEC)
f.prop = ProtoField.uint32("rpcordma2.prop", "Property", base.DEC, props)
f.prop_value = ProtoField.uint32("rpcordma2.prop.value", "Value", base.DEC)
f.prop_data = ProtoField.bytes("rpcordma2.prop.data", "Data")
f.inv_handle = ProtoField.uint32("rpcordma2.inv_handle", "To be invalidated", base.HEX)
f.remaining = ProtoField.uint32("rpcordma2.remaining", "Octets that remain", base.DEC)
f.calls = ProtoField.uint32("rpcordma2.call", "Call chunk: segments", base.DEC)
f.reads = ProtoField.uint32("rpcordma2.reads", "Read list: segments", base.DEC)
f.writes = ProtoField.uint32("rpcordma2.writes", "Write list: chunks", base.DEC)
f.reply = ProtoField.bool("rpcordma2.reply", "Reply chunk")
f.count = ProtoField.uint32("rpcordma2.segments", "Segments", base.DEC)
f.position = ProtoField.uint32("rpcordma2.position", "Position", base.DEC)
f.handle = ProtoField.uint32("rpcordma2.handle", "Handle", base.HEX)
f.length = ProtoField.uint32("rpcordma2.length", "Length", base.DEC)
f.offset = ProtoField.uint64("rpcordma2.offset", "Offset", base.HEX)
f.program = ProtoField.uint32("rpcordma2.rpc.program", "RPC program", base.DEC_HEX)
f.program_vers = ProtoField.uint32("rpcordma2.rpc.version", "RPC program version", base.DEC)
f.procedure = ProtoField.uint32("rpcordma2.rpc.procedure", "RPC procedure", base.DEC)
f.payload = ProtoField.bytes("rpcordma2.payload", "Payload")

local unknown_error = ProtoExpert.new("rpcordma2.unknown_error", "Unknown error code",
	expert.group.PROTOCOL, expert.severity.WARN)
local wrong_xid = ProtoExpert.new("rpcordma2.wrong_xid", "The RPC message has another XID",
	expert.group.PROTOCOL, expert.severity.WARN)
proto.experts = { unknown_error, wrong_xid }

local rpc = Dissector.get("rpc")

--[[
A cursor over the message. The message is read twice: first without a tree, to find out whether it can be parsed, then with one. The
cursor raises an error with the value SHORT if octets are missing or have an invalid value.
]]
local SHORT = {}
local cursor = {}
cursor.__index = cursor

function cursor:word(field, tree)
	if self.at + 4 > self.tvb:len() then
		error(SHORT)
	end
	local range = self.tvb(self.at, 4)
	self.at = self.at + 4
	local item = tree and field and tree:add(field, range)
	return range:uint(), item
end

-- RFC 4506 s4.19: whether another element follows.
function cursor:more()
	local v = self:word()
	if v > 1 then
		error(SHORT)
	end
	return v == 1
end

function cursor:octets(n)
	if n > self.tvb:len() - self.at or -n % 4 > self.tvb:len() - self.at - n then
		error(SHORT)
	end
	local range = n > 0 and self.tvb(self.at, n) or nil
	self.at = self.at + n + -n % 4
	return range
end

local function segment(c, tree, position)
	local begin = c.at
	local t = tree and tree:add(proto, c.tvb(begin)):set_text("Segment")
	if position then
		c:word(f.position, t)
	end
	c:word(f.handle, t)
	local len = c:word(f.length, t)
	if c.at + 8 > c.tvb:len() then
		error(SHORT)
	end
	if t then
		t:add(f.offset, c.tvb(c.at, 8))
		t:set_len(c.at + 8 - begin)
		t:append_text(string.format(", %u octets", len))
	end
	c.at = c.at + 8
end

-- A list of Read segments. Returns their number.
local function read_list(c, tree, field)
	local begin, n = c.at, 0
	local t = tree and tree:add(field, c.tvb(begin, 0), 0)
	while c:more() do
		segment(c, t, true)
		n = n + 1
	end
	if t then
		t:set_len(c.at - begin)
		t:set_text((field == f.calls and "Call chunk: " or "Read list: ") .. n .. " segments")
	end
	return n
end

-- A Write or Reply chunk. Returns the number of its segments.
local function write_chunk(c, tree)
	local n = c:word(f.count, tree)
	if n > (c.tvb:len() - c.at) / 16 then
		error(SHORT)
	end
	for _ = 1, n do
		segment(c, tree, false)
	end
	return n
end

-- The Write list. Returns the number of its chunks, and of the segments of all chunks.
local function write_list(c, tree)
	local begin, n, segs = c.at, 0, 0
	local t = tree and tree:add(f.writes, c.tvb(begin, 0), 0)
	while c:more() do
		segs = segs + write_chunk(c, t)
		n = n + 1
	end
	if t then
		t:set_len(c.at - begin)
		t:set_text("Write list: " .. n .. " chunks")
	end
	return n, segs
end

local function reply_chunk(c, tree)
	local begin = c.at
	local there = c:more()
	local t = tree and tree:add(f.reply, c.tvb(begin, 4), there)
	if there then
		write_chunk(c, t)
	end
	return there
end

local function error_body(c, tree)
	local code, item = c:word(f.err, tree)
	if code == 1 then
		c:word(f.err_low, tree)
		c:word(f.err_high, tree)
	elseif code >= 6 and code <= 8 then
		c:word(f.err_max, tree)
	elseif code == 9 then
		c:word(f.err_index, tree)
		c:word(f.err_needed, tree)
	elseif code == 10 then
		c:word(f.err_needed, tree)
	elseif errors[code] == nil and item then
		item:add_proto_expert_info(unknown_error)
	end
	return errors[code] or string.format("error %u", code)
end

local function props_body(c, tree)
	local n, text = c:word(), {}
	for _ = 1, n do
		local which, item = c:word(f.prop, tree)
		local range = c:octets(c:word())
		local name = props[which] or string.format("property %u", which)
		if item and range and props[which] and which ~= HOSTAUTH and range:len() == 4 then
			item:add(f.prop_value, range)
			text[#text + 1] = name .. " " .. range:uint()
		elseif item and range then
			item:add(f.prop_data, range)
			text[#text + 1] = name
		else
			text[#text + 1] = name .. " default"
		end
	end
	return table.concat(text, ", ")
end

-- By header type: the function for its body. Each returns a text for the Info column, and whether an item was reduced.
local bodies = {
	[ERROR] = error_body,
	[GRANT] = function() end,
	[CONNPROP_MIDDLE] = props_body,
	[CONNPROP_FINAL] = props_body,
	[CALL_MIDDLE] = function(c, tree)
		return c:word(f.remaining, tree) .. " octets remain"
	end,
	[CALL_EXTERNAL] = function(c, tree)
		c:word(f.inv_handle, tree)
		if read_list(c, tree, f.calls) == 0 then
			error(SHORT)
		end
		local reads = read_list(c, tree, f.reads)
		local writes = write_list(c, tree)
		return reads .. " reads, " .. writes .. " writes" .. (reply_chunk(c, tree) and ", reply chunk" or "")
	end,
	[CALL_INLINE] = function(c, tree)
		c:word(f.inv_handle, tree)
		local reads = read_list(c, tree, f.reads)
		local writes = write_list(c, tree)
		local reply = reply_chunk(c, tree)
		if reads + writes == 0 and not reply then
			return nil
		end
		return reads .. " reads, " .. writes .. " writes" .. (reply and ", reply chunk" or ""), reads > 0
	end,
	[REPLY_EXTERNAL] = function(c, tree)
		local writes = write_list(c, tree)
		reply_chunk(c, tree)
		return writes .. " writes, reply chunk"
	end,
	[REPLY_INLINE] = function(c, tree)
		local writes, segs = write_list(c, tree)
		return writes > 0 and writes .. " writes" or nil, segs > 0
	end,
}
bodies[REPLY_MIDDLE] = bodies[CALL_MIDDLE]

-- Types that an RPC message, or a part of one, follows. For whole messages: the direction (RFC 5531 s9).
local has_payload = { [CALL_MIDDLE] = true, [CALL_INLINE] = true, [REPLY_MIDDLE] = true, [REPLY_INLINE] = true }
local direction = { [CALL_INLINE] = 0, [REPLY_INLINE] = 1 }

local function header(tvb, tree)
	local c = setmetatable({ tvb = tvb, at = 0 }, cursor)
	local xid = c:word(f.xid, tree)
	c:word(f.vers, tree)
	local credit = c:word(f.credit, tree)
	local htype = c:word(f.htype, tree)
	local text, reduced = bodies[htype](c, tree)
	if has_payload[htype] and c.at + 4 > tvb:len() then
		error(SHORT)
	end
	return { xid = xid, credit = credit, htype = htype, len = c.at, text = text, reduced = reduced }
end

function proto.dissector(tvb, pinfo, tree)
	local whole = tree:add(proto, tvb())
	local h = header(tvb, whole)
	whole:set_len(h.len)
	local name = types[h.htype]
	local text = string.format("%s, XID 0x%08x, credit %u", name, h.xid, h.credit) .. (h.text and ", " .. h.text or "")
	whole:append_text(", " .. text)
	pinfo.cols.protocol = "RPCoRDMA2"
	pinfo.cols.info = text
	if not has_payload[h.htype] then
		return
	end
	local rest = tvb(h.len)
	local first = rest(0, 4):uint()
	if direction[h.htype] and not h.reduced and first == h.xid and rest:len() >= 8 and
		rest(4, 4):uint() == direction[h.htype] then
		if h.htype == CALL_INLINE and rest:len() >= 24 then
			whole:add(f.program, rest(12, 4))
			whole:add(f.program_vers, rest(16, 4))
			whole:add(f.procedure, rest(20, 4))
		end
		if rpc:call(rest:tvb(), pinfo, tree) > 0 then
			pinfo.cols.info:append(" {" .. text .. "}")
			return
		end
	end
	local item = whole:add(f.payload, rest)
	-- A later part of a continued message begins anywhere, but one with chunks begins with its XID.
	if h.reduced and first ~= h.xid then
		item:add_proto_expert_info(wrong_xid)
	end
end

local function heuristic(tvb, pinfo, tree)
	if tvb:len() < 16 or tvb(4, 4):uint() ~= 2 or types[tvb(12, 4):uint()] == nil then
		return false
	end
	local ok, why = pcall(header, tvb, nil)
	if not ok then
		if why ~= SHORT then
			error(why)
		end
		return false
	end
	proto.dissector(tvb, pinfo, tree)
	return true
end

proto:register_heuristic("iwarp_ddp_rdmap", heuristic)
