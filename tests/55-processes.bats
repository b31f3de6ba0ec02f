# SPDX-License-Identifier: BSD-2-Clause
# Statistics by process: a full table, processes that have ended, and those whose main thread has.
# bats file_tags=bpf

load helpers

LIB=$FIX/libengine.so

# A process of the case `children` has twelve records: these fill a table of 32,768.
MANY=3400

attach_chain() { # ARG...
	need_bpf
	fsn attach g 'eng_tail_*' --lib "$LIB" "$@"
}

# What the functions of g have in common: CALLS RETURNS, of their processes together, of the
# ended ones, and how many are lost in all. A difference between them would show as a list.
sums() {
	"$FUNCSNOOP" stats g --json >"$BATS_TEST_TMPDIR/sums.json"
	jq -rc '.[0] | [([.functions[] | [.calls, .returns]] | unique[] | map(tostring) | join(" ")),
		([.functions[] | .processes[].calls] | add // 0),
		([.functions[] | .processes[].returns] | add // 0),
		([.functions[].ended | .calls] | add // 0),
		([.functions[].ended | .returns] | add // 0),
		.health.lost_processes] | map(tostring) | join(" ")' "$BATS_TEST_TMPDIR/sums.json"
}

# --- more processes than there is room for -----------------------------------------------

@test "each call that finds no room by process is counted as lost once" {
	local calls returns seen back ended ended_back lost

	attach_chain
	capture "$FIX/engine" children "$MANY"
	read -r calls returns seen back ended ended_back lost < <(sums)
	assert_eq "$calls $returns" "$MANY $MANY"
	assert_between "$lost" 1 $((12 * MANY))
	assert_eq "$((seen + ended + lost)) $((back + ended_back + lost))" \
		"$((12 * MANY)) $((12 * MANY))"
	fsn detach g
}
