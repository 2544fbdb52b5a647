-- SPDX-License-Identifier: BSD-3-Clause
--[[
RDMAP operations that Wireshark's own iWARP dissector does not know:

  0x08, 0x09  Immediate Data, without and with Solicited Event     RFC 7306 s6
  0x0c, 0x0d  Flush Request and Response                           draft-talpey-rdma-commit-02 s2.1
  0x0e, 0x0f  Verify Request and Response                          s2.2
  0x10, 0x11  Atomic Write Request and Response                    s2.3
  and the Terminate codes of weft for the last three (RDMA layer, remote operation error, 0x0a to 0x0d).

Wireshark's dissector shows the DDP and RDMAP headers as before. This script adds a tree with the fields iwarp_ext.*, and the
names of the operations at the end of the Info column. README.md beside this file explains the installation.

Wireshark reads four bits of an RDMAP opcode (RFC 5040 s4.1). The draft's last two opcodes have five. So Wireshark takes an Atomic
Write Response (0x11) for a Read Request (0x1), does not find the 28 octets of one, and marks the frame as malformed. The script
cannot remove this mark.
]]

local ext = Proto("iwarp_ext", "iWARP RDMAP Extensions")
local f = ext.fields

local opcodes = {
	[0x08] = "Immediate Data",
	[0x09] = "Immediate Data with SE",
	[0x0c] = "Flush Request",
	[0x0d] = "Flush Response",
	[0x0e] = "Verify Request",
	[0x0f] = "Verify Response",
	[0x10] = "Atomic Write Request",
	[0x11] = "Atomic Write Response",
}
local term_codes = {
	[0x0a] = "Flush failed",
	[0x0b] = "Hash mismatch",
	[0x0c] = "Verify could not read the medium",
	[0x0d] = "the medium is gone",
}

f.opcode = ProtoField.uint8("iwarp_ext.opcode", "OpCode", base.HEX, opcodes, 0x1f)
f.imm_data = ProtoField.bytes("iwarp_ext.imm.data", "Immediate Data")
for _, op in ipairs { { "flush", "Flush" }, { "verify", "Verify" }, { "atomic_write", "Atomic Write" } } do
	local abbr = "iwarp_ext." .. op[1]
	f[op[1] .. "_stag"] = ProtoField.uint32(abbr .. ".stag", "Data Sink STag", base.HEX)
	f[op[1] .. "_length"] = ProtoField.uint32(abbr .. ".length", op[2] .. " length", base.DEC)
	f[op[1] .. "_offset"] = ProtoField.uint64(abbr .. ".offset", "Data Sink Tagged Offset", base.HEX)
end
f.flush_flags = ProtoField.uint32("iwarp_ext.flush.flags", "Flags", base.HEX)
f.flush_p = ProtoField.bool("iwarp_ext.flush.flags.persistent", "Persistence", 32, nil, 0x1)
f.flush_v = ProtoField.bool("iwarp_ext.flush.flags.visible", "Global visibility", 32, nil, 0x2)
f.flush_r = ProtoField.bool("iwarp_ext.flush.flags.region", "Entire region", 32, nil, 0x4)
f.flush_z = ProtoField.uint32("iwarp_ext.flush.flags.reserved", "Reserved", base.HEX, nil, 0xfffffff8)
f.verify_hash = ProtoField.bytes("iwarp_ext.verify.hash", "Expected hash")
f.verify_result = ProtoField.bytes("iwarp_ext.verify.result", "Hash of the medium")
f.atomic_write_data = ProtoField.bytes("iwarp_ext.atomic_write.data", "Data")
f.term_code = ProtoField.uint8("iwarp_ext.term.code", "Error Code for RDMA layer", base.HEX, term_codes)

local bad_length = ProtoExpert.new("iwarp_ext.bad_length", "Not the length of this operation",
	expert.group.MALFORMED, expert.severity.WARN)
ext.experts = { bad_length }

local UNTAGGED_HDR = 18 -- RFC 5041 s4.3
local TAGGED_HDR = 14 -- s4.2
local ddp_field = Field.new("iwarp_ddp")
local len_field = Field.new("iwarp_mpa.ulpdulength")

-- The opcode of a message of the extensions, nil for any other message. Two of the opcodes differ from RFC 5040's only in a reserved
-- bit, which a receiver ignores. They are recognized as weft's receiver does: by tagged or untagged, and by the queue.
local function opcode(seg)
	local ddp, ctl = seg(0, 1):uint(), seg(1, 1):uint()
	if ddp >= 0x80 or seg:len() < UNTAGGED_HDR then
		return nil
	end
	local low, fifth, qn = ctl % 16, math.floor(ctl / 16) % 2, seg(6, 4):uint()
	if fifth == 1 and (low == 0 or low == 1 and qn ~= 1) then
		return 16 + low
	end
	return opcodes[low] and low or nil
end

local function request(t, body, name)
	t:add(f[name .. "_stag"], body(0, 4))
	t:add(f[name .. "_length"], body(4, 4))
	t:add(f[name .. "_offset"], body(8, 8))
	return string.format(", STag 0x%08x, offset 0x%s, %d octets", body(0, 4):uint(),
		tostring(body(8, 8):bytes()):lower(), body(4, 4):uint())
end

-- By opcode: minimum and maximum of the octets behind the headers, and the function that shows them.
local bodies = {
	[0x08] = { 8, 8, function(t, body)
		t:add(f.imm_data, body(0, 8))
		return ", 0x" .. tostring(body(0, 8):bytes()):lower()
	end },
	[0x0c] = { 20, 20, function(t, body)
		local text = request(t, body, "flush")
		local flags = body(16, 4)
		local v = flags:uint()
		local names = (v % 2 == 1 and "P" or "") .. (math.floor(v / 2) % 2 == 1 and "V" or "") ..
			(math.floor(v / 4) % 2 == 1 and "R" or "")
		local ft = t:add(f.flush_flags, flags):append_text(" (" .. names .. ")")
		for _, bit in ipairs { f.flush_p, f.flush_v, f.flush_r, f.flush_z } do
			ft:add(bit, flags)
		end
		return text .. ", " .. names
	end },
	[0x0d] = { 0, 0 },
	[0x0e] = { 16, 16 + 64, function(t, body)
		local text = request(t, body, "verify")
		if body:len() > 16 then
			t:add(f.verify_hash, body(16))
			text = text .. ", hash " .. tostring(body(16):bytes()):lower()
		end
		return text
	end },
	[0x0f] = { 1, 64, function(t, body)
		t:add(f.verify_result, body)
		return ", hash " .. tostring(body:bytes()):lower()
	end },
	[0x10] = { 24, 24, function(t, body)
		local text = request(t, body, "atomic_write")
		t:add(f.atomic_write_data, body(16, 8))
		return text .. ", 0x" .. tostring(body(16, 8):bytes()):lower()
	end },
	[0x11] = { 0, 0 },
}
bodies[0x09] = bodies[0x08]

-- Show a message of the extensions, given the range that begins with its DDP header. Returns its name, or nil.
local function message(seg, tree)
	local op = opcode(seg)
	if op == nil then
		return nil
	end
	local name, text = opcodes[op], ""
	local t = tree:add(ext, seg)
	t:set_text("iWARP RDMAP Extensions, " .. name)
	t:add(f.opcode, seg(1, 1))
	-- None of these messages is longer than the least segment; a part of one is shown by name only.
	local last, mo = seg(0, 1):uint() % 128 >= 64, seg(14, 4):uint()
	local n = seg:len() - UNTAGGED_HDR
	local min, max, show = bodies[op][1], bodies[op][2], bodies[op][3]
	if not last or mo ~= 0 then
		return name .. " (part)"
	end
	if n < min or n > max then
		t:add_proto_expert_info(bad_length)
		return name
	end
	if show and n > 0 then
		text = show(t, seg(UNTAGGED_HDR, n))
	end
	t:append_text(text)
	return name
end

-- A Terminate with a code of weft: RFC 5040 s4.8, layer 0, type 2.
local function terminate(seg, tree)
	if seg:len() < UNTAGGED_HDR + 4 or seg(0, 1):uint() >= 0x80 or seg(1, 1):uint() % 16 ~= 7 then
		return nil
	end
	local name = term_codes[seg(UNTAGGED_HDR + 1, 1):uint()]
	if seg(UNTAGGED_HDR, 1):uint() ~= 0x02 or name == nil then
		return nil
	end
	local t = tree:add(ext, seg(UNTAGGED_HDR, 4))
	t:set_text("iWARP RDMAP Extensions, Terminate: " .. name)
	t:add(f.term_code, seg(UNTAGGED_HDR + 1, 1))
	return name
end

function ext.dissector(tvb, pinfo, tree)
	local lengths, names = {}, {}
	for _, l in ipairs { len_field() } do
		-- An FPDU of length 0 (RFC 6581 s9.2: an RTR) has no DDP header.
		if l.value > 0 then
			lengths[#lengths + 1] = l.value
		end
	end
	for i, h in ipairs { ddp_field() } do
		local n, src = lengths[i], h.source
		if n and src and n >= TAGGED_HDR and h.offset + n <= src:len() then
			local seg = src(h.offset, n)
			names[#names + 1] = message(seg, tree) or terminate(seg, tree)
		end
	end
	if #names > 0 then
		pinfo.cols.info:append(" {" .. table.concat(names, "; ") .. "}")
	end
end

register_postdissector(ext)
