# SPDX-License-Identifier: BSD-2-Clause
# Helpers of the files about streams: `load stream` behind `load helpers`.
#
#	attach_fix FUNCTION...		 group g of libfix.so, with ends seen by return probes
#	attach_typed [OPTION...]	 group g with types: add, fail, sleep, text, nested
#	start_stream NAME ARG...	 a stream in the background, once it watches
#	stop_stream NAME		 Ctrl-C; then $output, $stderr; its status must be 0
#	assert_free GROUP		 no place of the group is taken, nothing pays
#
# shellcheck shell=bash disable=SC2154	# $output and others are helpers.bash's

LIB=$FIX/libfix.so

attach_fix() { # FUNCTION...
	need_bpf
	need_tool jq
	fsn attach g "$@" --lib "$LIB" --exit return
}

attach_typed() { # OPTION...
	need_bpf
	need_tool jq
	cat >"$BATS_TEST_TMPDIR/g.json" <<-END
	{ "types": { "code_t": { "base": "int", "error": "nonzero",
		"codes": { "0": "fixOk", "2": "fixBad" } } },
	  "lib": "$LIB",
	  "g_func_sym": {
		"add":    { "symbol": "fix_add", "ret": "int", "args": ["int a", "int b"] },
		"fail":   { "symbol": "fix_fail", "ret": "code_t", "args": ["code_t code"] },
		"sleep":  { "symbol": "fix_sleep_us", "ret": "int", "args": ["unsigned us"] },
		"text":   { "symbol": "fix_str", "ret": "long", "args": ["const char *text"] },
		"nested": { "symbol": "fix_nested", "ret": "int", "args": ["int n"] } } }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/g.json" --exit return "$@"
}

watches() { # NAME
	grep -q watching "$(bg_err "$1")" || bg_ended "$1"
}

start_stream() { # NAME ARG...
	start_bg "$1" "$FUNCSNOOP" stream "${@:2}"
	poll_until watches "$1"
	grep -q watching "$(bg_err "$1")" || fail "stream: $(<"$(bg_err "$1")")"
}

stop_stream() { # NAME
	stop_bg -INT "$1"
	assert_eq "$status" 0 "status of stream '$1'"
}

has_open() { # NAME FILE
	[[ $(readlink "/proc/$(bg_pid "$1")"/fd/*) == *"$2"* ]]
}

lines_of() { # NAME: how many there are so far
	wc -l <"$(bg_out "$1")"
}

has_lines() { # NAME CNT
	(($(lines_of "$1") >= $2))
}

# Number and kind of $output's objects: "call fix_add 10".
events() {
	jq -r '[.type, .function // "-"] | join(" ")' <<<"$output" | sort | uniq -c |
		awk '{ print $2, $3, $1 }'
}

assert_events() { # LINES
	assert_eq "$(events)" "$1" "events"
}

map_of() { # GROUP MAP: as bpftool shows it
	bpftool -j map dump pinned "$FUNCSNOOP_BPFFS/funcsnoop/$1/$2"
}

switches() { # GROUP: the streams that run, who asks for arguments
	map_of "$1" ctl | jq -c '.. | objects | select(has("streams")) | [.streams, .save_args]'
}

leases() { # GROUP: how many places are taken
	map_of "$1" streams | jq '[.. | objects | .lease_ns? // empty | select(. != 0)] | length'
}

lease_ended() { # GROUP: of all its streams
	local now

	now=$(awk '{ printf "%.0f", $1 * 1000 }' /proc/uptime)
	[[ $(map_of "$1" streams |
		jq "[.. | objects | .lease_ns? // empty | select(. / 1000000 >= $now)] | length") == 0 ]]
}

rings() { # GROUP: how many buffers hang there
	map_of "$1" rings | jq length
}

assert_free() { # GROUP
	need_tool bpftool
	assert_eq "$(switches "$1")" "[0,0]" "streams that run, who asks for arguments"
	assert_eq "$(leases "$1")" 0 "places taken"
	assert_eq "$(rings "$1")" 0 "buffers"
}
