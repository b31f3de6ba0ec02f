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

# --- a process whose main thread has ended -------------------------------------------------

# bg_ended, and what asks it, take such a process for one that has ended.
start_headless() { # CALLS
	start_bg engine "$FIX/engine" headless "$1" --wait-end
	poll_until bg_says engine "^headless " 2>/dev/null
}

headless_counts() { # MODE [--pid]
	local exit=ret pid=()

	[[ $1 != session ]] || exit=return
	need_link "$1"
	start_headless 1000
	[[ -z ${2-} ]] || pid=("$2" "$(bg_pid engine)")
	fsn attach g eng_leaf --lib libengine.so --link "$1" --exit "$exit" "${pid[@]}"
	assert_output_match ", mapped by 1 process; link $1, exits $exit"
	tell engine
	poll_until bg_says engine "^done "
	assert_numbers g "eng_leaf 1000 0 1000 0 0 0"
	fsn stats g --by process
	assert_output_match "^ *$(bg_pid engine)  engine +runs +1000 "
	tell engine
	wait_bg engine
	fsn stats g --by process
	assert_output_match "^ *[0-9]+  engine +ended +1000 "
	fsn detach g
}

# Once it is found by what it maps, once it alone is asked for.
case_headless() { # MODE
	headless_counts "$1"
	headless_counts "$1" --pid
}

@test "a process whose main thread has ended is probed and counted (session)" {
	case_headless session
}
@test "a process whose main thread has ended is probed and counted (multi)" {
	case_headless multi
}
@test "a process whose main thread has ended is probed and counted (perf)" {
	case_headless perf
}
