#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop run stops processes until the libraries that they load have probes: other processes
# that continue them too early change no count.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
	mkdir -p "$BATS_TEST_TMPDIR/late"
	LATE=$BATS_TEST_TMPDIR/late/libfixheld.so.1
	cp "$FIX/libfix.so" "$LATE"
}

calls() { # FUNCTION: calls in the table on standard error
	awk -v f="$1" '$1 == f { print $2; exit }' <<<"$stderr"
}

@test "run: counts the first call of a process that its parent continues too early" {
	fsn run fixheld:fix_alias_a -- sh -c '"$@" & pid=$!
		while kill -CONT $pid 2>/dev/null; do sleep 0.01; done; wait' \
		sh "$FIX/dlcall" "$LATE" fix_alias_a 3
	assert_output_match '^result fix_alias_a calls=3 '
	assert_eq "$(calls fix_alias_a)" 3
}

@test "run: counts each round of children whose parents answer each stop" {
	local i

	for ((i = 0; i < 5; i++)); do
		fsn run fixheld:fix_alias_a -- "$FIX/dlcall" --su "$LATE" fix_alias_a 3 4
		assert_output_match '^result fix_alias_a calls=12 '
		assert_eq "$(calls fix_alias_a)" 12
	done
}
