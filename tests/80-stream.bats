#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stream: each call once, filters, two at a time, and what is lost is counted.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

attach_fix() { # FUNCTION...
	need_bpf
	fsn attach g "$@" --lib "$LIB"
}

# A stream in the background, once it watches.
start_stream() { # NAME ARG...
	start_bg "$1" "$FUNCSNOOP" stream "${@:2}"
	poll_until grep -q watching "$(bg_err "$1")"
}

# bats test_tags=core
@test "each call is one JSON object, and there are as many as calls" {
	attach_fix fix_add
	start_stream s g --json
	capture "$FIX/call" add 1234
	stop_bg -INT s
	assert_eq "$status" 0
	assert_eq "$(jq -c 'select(.type == "call" and .function == "fix_add")' <<<"$output" | wc -l)" 1234
	assert_eq "$(wc -l <<<"$output")" 1234
	fsn detach g
}
