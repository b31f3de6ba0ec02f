#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# --overhead, and its default: functions are tried in batches, and those that would cost the traced
# program more than the bound are sampled, counted only or left out. The first tests have prices
# that differ so much that the machine's load decides nothing; those that measure rates are alone.
# bats file_tags=bpf

load helpers

RATES=$FIX/rates

setup() {
	common_setup
	need_bpf
	need_tool jq
	calibrated_run
}

# Entries of 4 us, calls that are timed of a tenth of a millisecond: rate_hot takes four times the
# default bound, rate_warm less than half of 5 %.
# Otherwise NS of each class.
set_prices() { # [LINK [NS...]]: where it is not the best one, by the prices of that
	local class prices=''

	for class in ${2:-4000 100000 100000 100000 100000}; do
		prices+=" 0 $class 0 0"
	done
	sed -i -E "s/^[a-z]+ (of [^ ]+ at [0-9]+ spread [0-9]+):.*/${1-$(link_of)} \1:$prices$prices/" \
		/run/funcsnoop/calibration
}

link_of() {
	"$FUNCSNOOP" feature --json | jq -r .attach.link
}

start_rates() {
	start_bg rates "$RATES"
	wait_line rates '^running$'
}

limits() { # of $output, attach's or of list functions
	json -c '.[0].functions | map([.name, .limited]) | sort'
}

is_tried() { # GROUP: its nameless folder is there
	[[ -d $FUNCSNOOP_BPFFS/funcsnoop/$1~ ]]
}

# Without the help of a next command.
left_nothing() {
	[[ -z $(ls -A "$FUNCSNOOP_BPFFS/funcsnoop") ]]
}

@test "overhead: a function called without a pause is left out, one called often counted only" {
	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --overhead 5%
	assert_output_match "^g: overhead at most 5 %: 2 functions kept, 1 of them counted only, 1 left out: 'rate_hot' \([0-9]+ calls/s\), 'rate_warm' \([0-9]+ calls/s, counted only\); '--overhead none' keeps all, 'run cpu' samples those left out$"
	refute_output_match rate_cold
	fsn list functions g --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot","left out"],["rate_warm","counted only"]]'
	assert_json '.[0].functions[] | select(.limited == "left out") | [.symbol, .site_offset, (.refused | test("^--overhead: [0-9]+ calls/s$"))]' \
		'["rate_hot",null,true]'
	assert_json '.[0].overhead | [.granted_ns_per_s, .cost_ns_per_s <= 50000000, .kept, .sampled, .counted_only, .left_out]' \
		'[50000000,true,2,0,1,1]'
	fsn list functions g
	assert_output_match '^rate_hot .* left out +--overhead: [0-9]+ calls/s$'
	fsn list -v
	assert_output_match "; overhead at most 5 %: 1 counted only, 1 left out; attached "
	fsn list --json
	assert_json '.[0] | [.functions, .options.granted_ns_per_s]' '[2,50000000]'
	fsn stats g --all --json
	assert_json '.[0].functions | map(.name) | sort' '["rate_cold","rate_warm"]'
	stop_bg rates
	fsn detach g
}

has_shares() {
	"$FUNCSNOOP" stats g --all | grep -q 'TIME%'
}

@test "overhead: functions left out are rows of the table, with their rate, and nothing has a share" {
	local rate

	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --overhead 5%
	rate=$(sed -n "s/.*'rate_hot' (\([0-9]*\) calls.*/\1/p" <<<"$output")
	fsn stats g --all
	# Rates below 100 have a digit more.
	assert_eq "$(awk '$1 == "rate_hot" { print int(substr($2, 2)) }' <<<"$output")" "$rate"
	assert_output_match '^rate_hot +~[0-9.]+/s +left out( +-)*$'
	refute_output_match 'TIME%'
	fsn stats g --by library
	refute_output_match 'TIME%'
	fsn stats g --all --format csv
	refute_output_match 'rate_hot'
	assert_output_match ',time_percent,'
	stop_bg rates
	fsn reset g
	fsn stats g
	assert_output_match '^rate_hot '
	refute_output_match '^(rate_cold|cost:|probes took) '
	fsn detach g
	start_rates
	fsn attach g rate_cold --lib "$RATES"
	poll_until has_shares
	stop_bg rates
	fsn detach g
}

# Otherwise the calls of some milliseconds would be spread over 400 or more. Best of five,
# because the program may not run for 25 ms.
# bats test_tags=alone
@test "overhead: rates do not include the time that linking takes" {
	local file=$BATS_TEST_TMPDIR/strace right=0 nth i
	local attach=("$FUNCSNOOP" attach g 'rate_*' --lib "$RATES" --overhead 5% --json)

	need_tool strace
	set_prices
	start_rates
	capture strace -f --seccomp-bpf -o "$file" -e trace=bpf "${attach[@]}"
	fsn detach g
	# The first link is the trial's: its number among the calls of its process.
	nth=$(awk '{ n[$1]++ } /LINK_CREATE.* = [0-9]+$/ { print n[$1]; exit }' "$file")
	for ((i = 0; i < 5 && right < 3; i++)); do
		capture strace -f --seccomp-bpf -o "$file" -e trace=bpf \
			-e "inject=bpf:delay_enter=400000:when=$nth..$((nth + 1))" "${attach[@]}"
		grep -q 'LINK_CREATE.* = [0-9].*DELAYED' "$file"
		right=$((right + $(json '[.[0].overhead.expensive[] | select(.calls_per_s > 100)] | length == 2 | if . then 1 else 0 end')))
		fsn detach g
	done
	stop_bg rates
	assert_eq "$right" 3
}

@test "overhead: functions are tried in few batches while the processes that map them sleep" {
	local dir=$BATS_TEST_TMPDIR/lib

	need_tool strace
	need_link multi
	copy_libc "$(command -v sleep)" "$dir"
	start_bg sleeper env LD_LIBRARY_PATH="$dir" sleep 600
	poll_until grep -q "$dir/libc.so.6" "/proc/$(bg_pid sleeper)/maps"
	capture strace -f --seccomp-bpf -o "$dir/strace" -e trace=bpf \
		"$FUNCSNOOP" attach g '*' --lib "$dir/libc.so.6" --force
	# The first process that links is the trial's. Of 3,000 functions batches of 512 are 9 or more.
	assert_between "$(awk '/LINK_CREATE.*attach_type=(0x30|BPF_TRACE_UPROBE_MULTI)/ {
		trial = trial ? trial : $1; n += $1 == trial } END { print n + 0 }' "$dir/strace")" 2 5
	fsn stats g --json
	assert_json '.[0].functions | length' 0
	stop_bg sleeper
	fsn detach g
}

@test "overhead: attach --json has the same numbers and names" {
	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --overhead 5% --json
	assert_json '.[0].overhead | [.kept, .sampled, .counted_only, .left_out, (.tried_ns > 0), (.expensive | map([.name, .limited, .calls_per_s > 50]))]' \
		'[2,0,1,1,true,[["rate_hot","left out",true],["rate_warm","counted only",true]]]'
	stop_bg rates
	fsn detach g
}

@test "overhead: 10 % is the default for a glob, none lifts it" {
	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --json
	assert_json '.[0].overhead | [.granted_ns_per_s, .left_out]' '[100000000,1]'
	fsn detach g
	fsn attach g 'rate_*' --lib "$RATES" --overhead none --json
	assert_json '.[0] | [.overhead, (.functions | map(.limited) | unique)]' '[null,[null]]'
	stop_bg rates
	fsn detach g
}

@test "overhead: functions asked for by their exact names are kept" {
	set_prices
	start_rates
	fsn attach g rate_hot rate_warm --lib "$RATES" --json
	assert_json '.[0].functions | map(.limited) | unique' '[null]'
	fsn detach g
	fsn attach g rate_hot 'rate_[wc]*' --lib "$RATES" --overhead 5% --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot",null],["rate_warm","counted only"]]'
	stop_bg rates
	fsn detach g
}

@test "overhead: --budget is the old word for it" {
	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --budget 5% --json
	assert_json '.[0].overhead.granted_ns_per_s' 50000000
	stop_bg rates
	fsn detach g
}

@test "overhead: without nesting a function is sampled, and all of its calls are counted" {
	[[ $(link_of) == session ]] || skip "no session links: nothing is sampled"
	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --overhead 5% --no-nesting --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot","left out"],["rate_warm","sampled"]]'
	fsn reset g
	poll_until has_sampled
	stop_bg rates
	fsn stats g --json
	# Each CPU times one call of each 512 of its own; the first and the last of its blocks are parts.
	assert_json '.[0].functions[] | select(.name == "rate_warm") |
		[.untimed + .returns == .calls + .carried, .returns <= .calls / 512 + 2 * '"$(nproc)"']' '[true,true]'
	assert_json '.[0].functions[] | select(.name == "rate_cold") | .untimed' 0
	fsn stats g
	assert_stderr_match 'samples of the calls of some functions are timed: their times and errors are of these$'
	fsn detach g
}

has_sampled() {
	"$FUNCSNOOP" stats g --json | jq -e '.[0].functions | any(.name == "rate_warm" and .returns > 8) and
		any(.name == "rate_cold" and .returns > 0)'
}

@test "overhead: with multi links a function called often is counted only" {
	set_prices multi
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --overhead 5% --no-nesting --link multi --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot","left out"],["rate_warm","counted only"]]'
	assert_json '.[0].functions[] | select(.name == "rate_warm") | [.exit, (.exit_why | test("^--overhead: [0-9]+ calls/s$"))]' \
		'["none",true]'
	stop_bg rates
	fsn detach g
}

@test "overhead: functions without calls are all timed" {
	set_prices
	fsn attach g 'rate_*' --lib "$RATES" --overhead 0.01% --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot",null],["rate_warm",null]]'
	assert_json '.[0].overhead | [.granted_ns_per_s, .cost_ns_per_s]' '[100000,0]'
	fsn detach g
}

@test "overhead: nothing is attached where all would have to be left out" {
	set_prices
	start_rates
	fsn -s 1 attach g 'rate_h*' --lib "$RATES" --overhead 5%
	assert_stderr_match "^funcsnoop attach: cannot attach group 'g': no function can be probed: 'rate_hot': --overhead: [0-9]+ calls/s$"
	stop_bg rates
	holds_only ""
}

@test "overhead: an attach that is killed during the trial leaves nothing" {
	local signal

	set_prices
	start_rates
	for signal in KILL TERM; do
		start_bg try "$FUNCSNOOP" attach g 'rate_*' --lib "$RATES" --overhead 5%
		poll_until is_tried g
		stop_bg -$signal try
		poll_until left_nothing
		holds_only ""
	done
	stop_bg rates
}

@test "overhead: --replace keeps the old group until the trial is over, or for good where it fails" {
	set_prices
	start_rates
	fsn attach g rate_cold --lib "$RATES"
	fsn -s 1 attach g 'rate_h*' --lib "$RATES" --overhead 5% --replace
	fsn list functions g --json
	assert_json '.[0].functions | map(.name)' '["rate_cold"]'
	fsn -s 1 attach g 'rate_c*' --lib "$RATES" --overhead 5%
	assert_stderr_match "group 'g' is already attached$"
	fsn attach g 'rate_*' --lib "$RATES" --overhead 5% --replace
	fsn list functions g --json
	assert_eq "$(limits | jq -c 'map(select(.[1] == null))')" '[["rate_cold",null]]'
	stop_bg rates
	fsn detach g
}

@test "overhead: run has the same bound, and says what it gave up" {
	set_prices
	start_rates
	fsn run g 'rate_*' --lib "$RATES" --overhead 5% -d 0.2 --all --json
	assert_json '.[0].functions | map(.name) | sort' '["rate_cold","rate_warm"]'
	assert_stderr_match "^funcsnoop run: overhead at most 5 %: 2 functions kept, 1 of them counted only, 1 left out: 'rate_hot' "
	stop_bg rates
	holds_only ""
}

# bats test_tags=alone
@test "overhead: run samples the CPU time of the functions that it leaves out" {
	set_prices
	start_rates
	fsn run g 'rate_*' --lib "$RATES" --overhead 5% -p "$(bg_pid rates)" -d 2
	assert_output_match '^rate_hot +~[0-9.]+/s +left out'
	[[ ${lines[0]} =~ ^On\ CPU,\ by\ samples\ of\ the\ last\ ([0-9.]+\ m?s):\ also\ functions\ that\ are\ left\ out\ below$ ]]
	assert_eq "$(sed '/^$/q' <<<"$output" | awk '$4 == "rate_hot" { print ($2 > 0) }')" 1
	assert_eq "$(sed '1,/^$/d' <<<"$output" | awk '$1 == "rate_hot" { print $3, $4 }')" "left out"
	refute_output_match '_\[k\]'
	holds_only ""
	fsn run g 'rate_*' --lib "$RATES" --overhead 5% -p "$(bg_pid rates)" -d 0.1 --by library
	refute_output_match 'On CPU'
	fsn run g 'rate_[cw]*' --lib "$RATES" --overhead none -p "$(bg_pid rates)" -d 0.1
	refute_output_match 'On CPU'
	stop_bg rates
}

# Prints the own counters of rates as JSON.
rates_counts() { # FILE
	sed -E 's/^hot=([0-9]+) warm=([0-9]+) cold=([0-9]+) .*/[\1,\2,\3]/' "$1"
}

# The same by the group; and how many of them were timed.
rates_seen() { # FIELD
	json -c '.[0].functions | map({(.name): .'"$1"'}) | add | [.rate_hot, .rate_warm, .rate_cold]'
}

# bats test_tags=alone
@test "overhead: load that begins after attach is counted exactly, and only a part of it timed" {
	export FUNCSNOOP_GUARD=none
	local own=$BATS_TEST_TMPDIR/own line

	[[ $(link_of) == session ]] || skip "no session links: a call costs the same when it is not timed"
	fsn attach g 'rate_*' --lib "$RATES" --json
	assert_json '.[0].overhead | [.kept, .left_out]' '[3,0]'
	"$RATES" 0.7 >"$own"
	fsn stats g --json
	assert_eq "$(rates_seen calls)" "$(rates_counts "$own")"
	assert_json '.[0].functions | map(.calls == .returns + .untimed) | unique' '[true]'
	assert_json '.[0].functions[] | select(.name == "rate_hot") | .untimed > .calls / 4 and .returns > 0' true
	assert_json '.[0].functions[] | select(.name == "rate_cold") | .untimed' 0
	assert_json '.[0].health | .shed_calls > 0 and .shed_calls == .sampled_out' true
	fsn stats g
	assert_stderr_match "^funcsnoop stats: above the overhead of 10 %, calls were counted but not timed: [0-9]+ of [0-9]+ of 'rate_hot'"
	line=$(sed -n 's/^funcsnoop stats: to leave such functions out: //p' <<<"$stderr")
	fsn list
	assert_stderr_match "^funcsnoop list: group 'g' was above its overhead of 10 %: not all calls of [12] functions? were timed; 'funcsnoop stats g' names them$"
	fsn list --json
	assert_json '.[0].shed_functions >= 1' true
	# The line works as it stands, and does what it says.
	start_rates
	eval "capture $line"
	assert_json '.[0].overhead | [.left_out, .expensive[0].name]' '[1,"rate_hot"]'
	stop_bg rates
	fsn detach g
}

# bats test_tags=alone
@test "overhead: probes of functions that become hot within 10 s after attach are removed" {
	unset FUNCSNOOP_GUARD
	local own=$BATS_TEST_TMPDIR/own link

	for link in session multi; do
		link_works $link || continue
		fsn attach g 'rate_*' --lib "$RATES" --link $link --json
		assert_json '.[0].overhead | [.kept, .left_out]' '[3,0]'
		"$RATES" 1.5 >"$own"
		fsn list functions g --json
		assert_json '.[0].functions | map(select(.limited == "left out").name)' '["rate_hot"]'
		fsn list functions g
		assert_output_match '^rate_hot .* left out +--overhead: it became too expensive$'
		fsn stats g --json
		assert_json '.[0].functions | map({(.name): .calls}) | add | [.rate_warm, .rate_cold]' \
			"$(rates_counts "$own" | jq -c '.[1:]')"
		# Nine tenths of the time are the program's: it makes some 100 calls in a microsecond.
		(($(rates_counts "$own" | jq '.[0]') > 10000000)) || differs "calls" "over 10000000" "$(<"$own")"
		fsn detach g
	done
}

# bats test_tags=alone
@test "overhead: the process that removes probes ends with its group" {
	unset FUNCSNOOP_GUARD
	local pid

	fsn attach g 'rate_*' --lib "$RATES"
	pid=$(guards)
	[[ -n $pid ]]
	fsn detach g
	poll_until guard_ended "$pid"
	fsn attach g rate_hot --lib "$RATES"
	sleep 0.2
	assert_eq "$(guards)" ""
	fsn detach g
}

# Processes that watch groups of these tests: others have another mount namespace.
guards() {
	local file

	for file in $(grep -lx funcsnoop-bound /proc/[0-9]*/comm 2>/dev/null); do
		[[ $(readlink "${file%/comm}/ns/mnt") != "$(readlink /proc/self/ns/mnt)" ]] ||
			cut -d/ -f3 <<<"$file"
	done
}

guard_ended() { # PID
	[[ ! -e /proc/$1/exe ]] || ! readlink "/proc/$1/exe" >/dev/null
}

# bats test_tags=alone
@test "overhead: when the load has ended all calls are timed again" {
	export FUNCSNOOP_GUARD=none
	[[ $(link_of) == session ]] || skip "no session links: a call costs the same when it is not timed"
	fsn attach g 'rate_*' --lib "$RATES"
	"$RATES" 0.7 >/dev/null
	sleep 0.3
	fsn reset g
	"$RATES" 0.005 >"$BATS_TEST_TMPDIR/own"
	fsn stats g --all --json
	assert_eq "$(rates_seen calls)" "$(rates_counts "$BATS_TEST_TMPDIR/own")"
	# At most the calls before the first sample on each CPU.
	assert_json ".[0].functions[] | select(.name == \"rate_hot\") | .untimed <= 256 * $(nproc)" true
	fsn detach g
}

# bats test_tags=alone
@test "overhead: functions selected by name, and all with none or --memory, are timed" {
	local args

	for args in "rate_hot rate_warm" "rate_* --overhead none" "rate_* --memory"; do
		# shellcheck disable=SC2086 # words
		fsn -s any attach g --lib "$RATES" ${args/\*/[hw]*}
		[[ $status == 0 ]] || continue
		"$RATES" 0.2 >"$BATS_TEST_TMPDIR/own"
		fsn stats g --all --json
		assert_eq "$(rates_seen calls | jq -c '.[:2]')" "$(rates_counts "$BATS_TEST_TMPDIR/own" | jq -c '.[:2]')"
		assert_json '.[0].functions | map(.untimed) | unique' '[0]'
		fsn detach g
	done
}

# Prints the own counters of turns: kept=N nested=N ... of all its calls.
turns_counts() { # FILE
	sed -E 's/^kept=([0-9]+) nested=([0-9]+) .*/[\1,\2]/' "$1"
}

# The counts of kept functions, by what the group says.
group_counts() {
	json -c '.[0].functions | map({(.name): .calls}) | add | [.turn_kept, .turn_nested]'
}

# bats test_tags=alone
@test "overhead: run removes functions as they become hot, and counts the others exactly" {
	local link

	for link in session multi; do
		link_works $link || continue
		fsn run g 'turn_*' --lib "$FIX/turns" --link $link --output "$BATS_TEST_TMPDIR/json" --json -- \
			bash -c "exec '$FIX/turns' 1.2 2 >'$BATS_TEST_TMPDIR/own'"
		assert_stderr_match "^funcsnoop run: overhead at most 10 %: [1-8] functions left out meanwhile: 'turn_hot[0-7]' \([0-9]+ calls/s\)"
		output=$(<"$BATS_TEST_TMPDIR/json")
		assert_eq "$(group_counts)" "$(turns_counts "$BATS_TEST_TMPDIR/own")"
	done
	holds_only ""
}

# A pass takes 2 ms and more, and has 1,000 calls of nap_hot.
# bats test_tags=alone
@test "overhead: run removes only the hot functions of a program that sleeps, with rates by the clock" {
	local rate
	[[ $(link_of) == session ]] || skip "no session links"
	fsn run g 'nap_*' --lib "$FIX/naps" --output "$BATS_TEST_TMPDIR/json" --json -- "$FIX/naps" 400
	assert_stderr_match "1 function left out meanwhile: 'nap_hot' \([0-9]+ calls/s\)"
	rate=$(sed -nE "s/.*'nap_hot' \(([0-9]+) calls.*/\1/p" <<<"$stderr")
	((rate > 0 && rate <= 500000))
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_json '.[0].functions[] | select(.name == "nap_long") | [.calls, .returns + .untimed]' '[400,400]'
}

# bats test_tags=alone
@test "overhead: run removes what costs processes that it does not count" {
	# By those of a slow machine, rate_warm costs as much as sleep(1) may.
	set_prices "$(link_of)" "1000 1000 1000 1000 1000"
	start_rates
	fsn run g 'rate_*' --lib "$RATES" -- sleep 3
	assert_stderr_match "1 function left out meanwhile: 'rate_hot' \([1-9][0-9]* calls/s\)"
	stop_bg rates
}

# Naps of 2 ms and more, and probes that cost 100 us by their price: at most 5 % of a CPU, which is
# several times what the program uses.
# bats test_tags=alone
@test "overhead: run removes what costs more than a program that sleeps uses" {
	set_prices
	fsn run g 'nap_l*' --lib "$FIX/naps" --json -o "$BATS_TEST_TMPDIR/json" -- "$FIX/naps" 2000
	assert_stderr_match "1 function left out meanwhile: 'nap_long' \([0-9]+ calls/s\)"
}

# bats test_tags=alone
@test "overhead: run says that all functions were left out, and shortens their long names" {
	need_tool g++
	[[ $(link_of) == session ]] || skip "no session links"
	g++ -O1 -o "$BATS_TEST_TMPDIR/own" -x c++ - <<-'END'
		namespace a_scope_of_some_length { template <typename T> struct numbers_of_a_long_name {
			__attribute__((noinline)) static T next_of_them(T x) { asm volatile(""); return x + 1; } }; }
		int main()
		{
			int n = 0;

			while (n < 1000000)
				n = a_scope_of_some_length::numbers_of_a_long_name<int>::next_of_them(n);
		}
	END
	fsn run "$BATS_TEST_TMPDIR/own:*next_of_them*" -- "$BATS_TEST_TMPDIR/own"
	assert_stderr_match '^.{12,80}  +~[0-9.]+/s  +left out$'
	assert_stderr_match "1 function left out meanwhile: '.{12,40}' \([0-9]+ calls/s\)"
	refute_stderr_match 'no calls yet'
	fsn run "$BATS_TEST_TMPDIR/own:*next_of_them*" --show hist -- "$BATS_TEST_TMPDIR/own"
	assert_stderr_match '^no function to show: 1 function was left out at the overhead limit$'
}

link_works() { # LINK: the kernel has it, and tells what it is of, as 6.8 and later do
	"$FUNCSNOOP" feature --json | jq -e --arg l "$1" '.links | any(.name == $l and .available)' >/dev/null &&
		printf '6.8\n%s\n' "$(uname -r)" | sort -CV
}

# bats test_tags=alone
@test "overhead: all calls are counted while the load moves from function to function" {
	export FUNCSNOOP_GUARD=none
	[[ $(link_of) == session ]] || skip "no session links: a call costs the same when it is not timed"
	fsn attach g 'turn_*' --lib "$FIX/turns"
	"$FIX/turns" 0.9 2 >"$BATS_TEST_TMPDIR/own"
	fsn stats g --json
	assert_eq "$(group_counts)" "$(turns_counts "$BATS_TEST_TMPDIR/own")"
	assert_json '.[0].functions | map(select(.name | startswith("turn_hot")) | .untimed > 0) | any' true
	assert_json '.[0].functions | map(.calls == .returns + .untimed) | unique' '[true]'
	fsn detach g
}

# Each link stays for 20 ms next to the one that replaces it. Files take turns, so that a link may be
# replaced after another one was, as often as is odd.
# bats test_tags=alone
@test "overhead: run counts each call once while links of two files are replaced" {
	local file i other=$BATS_TEST_TMPDIR/others

	need_tool strace
	[[ $(link_of) == session ]] || skip "no session links"
	cp "$FIX/turns" "$other"
	start_bg run strace -f --seccomp-bpf -o "$BATS_TEST_TMPDIR/strace" -e trace=unlinkat \
		-e inject=unlinkat:delay_enter=20ms "$FUNCSNOOP" run g turn_kept turn_nested turn_long 'turn_hot*' --lib "$FIX/turns" \
		--lib "$other" --output "$BATS_TEST_TMPDIR/json" --json
	poll_until -t 120 grep -q "attached to" "$(bg_err run)"
	for i in 1 2; do
		for file in "$FIX/turns" "$other"; do
			"$file" 0.9 1 >>"$BATS_TEST_TMPDIR/${file##*/}.own"
		done
	done
	kill -INT "$(pgrep -P "$(bg_pid run)" -x funcsnoop)"
	wait_bg run
	assert_stderr_match "[0-9]+ functions? left out meanwhile: 'turn_hot"
	output=$(<"$BATS_TEST_TMPDIR/json")
	for file in turns others; do
		assert_eq "$(json -c --arg name "$file" '.[0].functions
			| map(select((.library | split("/") | last) == $name) | {(.name): .calls})
			| add | [.turn_kept, .turn_nested, .turn_long]')" \
			"$(awk -F'[= ]' '{ k += $2; n += $4; l += $6 } END { print "[" k "," n "," l "]" }' \
				"$BATS_TEST_TMPDIR/$file.own")" "$file"
	done
	assert_json '[.[0].functions[] | select(.name | test("hot") | not) | .calls == .returns + .untimed,
		.in_flight == 0, .abandoned == 0] | unique' '[true]'
	assert_json '.[0].health.unmatched_returns' 0
	holds_only ""
}

# The process that replaces links is killed while it does. The kernel can leave breakpoints in place.
# bats test_tags=alone
@test "overhead: a handover whose process is killed is repeated, and calls have times again" {
	local own=$BATS_TEST_TMPDIR/own-turns pid at

	need_tool strace
	[[ $(link_of) == session ]] || skip "no session links"
	cp "$FIX/turns" "$own"
	at=$((16#$(nm "$own" | awk '$3 == "turn_hot0" { print $1 }')))
	start_bg run strace -f --seccomp-bpf -o "$BATS_TEST_TMPDIR/strace" -e trace=unlinkat \
		-e inject=unlinkat:delay_enter=20ms "$FUNCSNOOP" run g turn_kept turn_nested turn_long 'turn_hot*' \
		--lib "$own" --output "$BATS_TEST_TMPDIR/json" --json
	poll_until -t 120 grep -q "attached to" "$(bg_err run)"
	pid=$(pgrep -P "$(bg_pid run)" -x funcsnoop)
	start_bg turns "$own" 120
	kill_handover "$pid"
	TIMED=$(timed)
	poll_until -t 30 has_new_times
	poll_until -t 30 no_breakpoint "$(bg_pid turns)" "$(code_at "$(bg_pid turns)" "$own" "$at")"
	stop_bg turns
	cp "$(bg_out turns)" "$BATS_TEST_TMPDIR/own"
	kill -INT "$pid"
	wait_bg run
	assert_stderr_match "functions? left out meanwhile: 'turn_hot"
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_eq "$(group_counts)" "$(turns_counts "$BATS_TEST_TMPDIR/own")"
	# The program has ended in the middle of turn_long.
	assert_json '[.[0].functions[] | select(.name | test("hot") | not) | .calls == .returns + .untimed + .abandoned,
		.in_flight == 0, .abandoned <= if .name == "turn_long" then 1 else 0 end] | unique' '[true]'
	assert_json '.[0].health.unmatched_returns' 0
	holds_only ""
}

# Kills the process that replaces links, after the first new one: one of eight times.
kill_handover() { # PID of the command
	local end=$((SECONDS + 60)) apart

	while ((SECONDS < end)); do
		compgen -G "$FUNCSNOOP_BPFFS/funcsnoop/g-*/link_[1-9]_*" >/dev/null || continue
		for apart in $(pgrep -P "$1" -x funcsnoop-apart); do
			kill -KILL "$apart" && return
		done
	done
	fail "no handover in 60 s"
}

timed() {
	"$FUNCSNOOP" stats --json | jq '.[0].functions[] | select(.name == "turn_kept").returns'
}

has_new_times() {
	(($(timed) > TIMED))
}

code_at() { # PID FILE ADDRESS: where PID has it
	local from
	from=$(awk -v file="$2" '$6 == file && $3 == 0 { sub(/-.*/, "", $1); print $1; exit }' "/proc/$1/maps")
	printf '%d\n' "$((16#$from + $3))"
}

# late_kept is called 100 times, late_hot without a pause in between.
# bats test_tags=alone
@test "overhead: run removes hot functions of a library that is loaded later" {
	local dir=$BATS_TEST_TMPDIR

	need_tool cc
	[[ $(link_of) == session ]] || skip "no session links"
	cat >"$dir/late.c" <<-'END'
	#include <time.h>
	__attribute__((noinline)) void late_kept(void) { __asm__ volatile(""); }
	__attribute__((noinline)) void late_hot(void) { __asm__ volatile(""); }
	int late_run(long ms)
	{
		for (int i = 0; i < 100; i++) {
			clock_t end = clock() + ms * CLOCKS_PER_SEC / 1000;

			late_kept();
			while (clock() < end)
				for (int n = 0; n < 100; n++)
					late_hot();
		}
		return 0;
	}
	END
	capture cc -O1 -fPIC -shared -o "$dir/libfsnlate.so" "$dir/late.c"
	fsn run 'fsnlate:late_[hk]*' --json -o "$dir/json" -- "$FIX/dlcall" "$dir/libfsnlate.so" late_run 1 1 10
	assert_stderr_match "yet: waiting for it$"
	assert_stderr_match "^funcsnoop run: overhead at most 10 %: 1 function left out meanwhile: 'late_hot' \([0-9]+ calls/s\)"
	output=$(<"$dir/json")
	assert_json '.[0].functions | map([.name, .calls])' '[["late_kept",100]]'
}

# bats test_tags=alone
@test "overhead: a call in progress when run replaces its link is counted, and said to be untimed" {
	[[ $(link_of) == session ]] || skip "no session links"
	fsn run g 'turn_*' --lib "$FIX/turns" -- bash -c "exec '$FIX/turns' 2 1 >'$BATS_TEST_TMPDIR/own'"
	assert_stderr_match '^funcsnoop run: [1-9][0-9]* calls? (was|were) in progress when a link was replaced, or began meanwhile: counted, not timed$'
	assert_stderr_match '^turn_long +[0-9]+ .* >[0-9]'
	fsn run g 'turn_*' --lib "$FIX/turns" --output "$BATS_TEST_TMPDIR/json" --json -- \
		bash -c "exec '$FIX/turns' 2 1 >'$BATS_TEST_TMPDIR/own'"
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_eq "$(json '.[0].functions[] | select(.name == "turn_long").calls')" \
		"$(sed -E 's/.* long=([0-9]+) .*/\1/' "$BATS_TEST_TMPDIR/own")"
	assert_json '.[0].functions[] | select(.name == "turn_long") |
		[.calls == .returns + .untimed, .untimed > 0, .in_flight, .abandoned]' '[true,true,0,0]'
	assert_json '.[0].health.unseen > 0' true
}

# turn_long is in progress nearly all the time: each handover takes the probe of one return away.
# bats test_tags=alone
@test "overhead: calls whose returns a stream misses when links are replaced are lost calls of it" {
	local all=$BATS_TEST_TMPDIR/all

	[[ $(link_of) == session ]] || skip "no session links"
	start_bg run "$FUNCSNOOP" run g 'turn_*' --lib "$FIX/turns" --output "$BATS_TEST_TMPDIR/table"
	poll_until grep -q "attached to" "$(bg_err run)"
	start_bg stream "$FUNCSNOOP" stream -f turn_long --json --output "$all"
	poll_until grep -q watching "$(bg_err stream)"
	"$FIX/turns" 2 1 >"$BATS_TEST_TMPDIR/own"
	kill -INT "$(bg_pid stream)"
	wait_bg stream
	stop_bg -INT run
	assert_stderr_match "left out meanwhile: "
	assert_eq "$(jq -s 'map(if .type == "lost" then .count else 1 end) | add' "$all")" \
		"$(sed -E 's/.* long=([0-9]+) .*/\1/' "$BATS_TEST_TMPDIR/own")"
	assert_eq "$(jq -s 'any(.type == "lost")' "$all")" true
}

# bats test_tags=alone
@test "overhead: calls have no time while links are replaced, however their returns are traced" {
	[[ $(link_of) == session ]] || skip "no session links"
	fsn run g 'turn_*' --lib "$FIX/turns" --probe exit=ret --output "$BATS_TEST_TMPDIR/json" --json -- \
		bash -c "exec '$FIX/turns' 2 1 >'$BATS_TEST_TMPDIR/own'"
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_json '.[0].functions[] | select(.name == "turn_long") |
		[.calls == .returns + .untimed, .untimed > 0, .in_flight, .abandoned]' '[true,true,0,0]'
}

# Since 6.13 the close of a link waits for the return of main, while its thread calls mid all the time.
# bats test_tags=alone
@test "overhead: run removes hot probes while an outer call is in progress" {
	local prog=$BATS_TEST_TMPDIR/outer at pid

	unset FUNCSNOOP_GUARD
	need_tool cc
	cat >"$prog.c" <<-'END'
		#include <stdio.h>
		#include <unistd.h>
		__attribute__((noinline)) int leaf(int n) { volatile int k = n; return k * 3; }
		__attribute__((noinline)) int mid(int n)
		{
			int s = 0;
			for (int i = 0; i < 10; i++)
				s += leaf(n + i);
			return s;
		}
		__attribute__((noinline)) int deep(int n)
		{
			volatile int k = n;
			return n <= 0 ? 0 : 1 + deep(k - 1) + k;
		}
		int main(int argc, char **argv)
		{
			FILE *f = fopen(argv[1], "w");
			volatile int sum = 0, on = argc;
			for (int i = 0; i < 50; i++)
				sum += deep(15);
			fprintf(f, "%d\n", getpid());
			fclose(f);
			alarm(120);
			while (on)
				for (int i = 0; i < 20; i++)
					sum += mid(i);
			return 0;
		}
	END
	cc -O1 -no-pie -o "$prog" "$prog.c"
	at=$((16#$(nm "$prog" | awk '$3 == "leaf" { print $1 }')))
	start_bg r "$FUNCSNOOP" run g "$prog:*" -- "$prog" "$prog.pid"
	poll_until test -s "$prog.pid"
	pid=$(<"$prog.pid")
	poll_until no_breakpoint "$pid" "$at"
	kill "$pid"
	wait_bg -s any r
	assert_stderr_match "left out meanwhile: .*'leaf' "
}

no_breakpoint() { # PID ADDRESS
	local byte

	byte=$(dd if="/proc/$1/mem" bs=1 count=1 skip="$2" status=none | od -An -tx1)
	[[ $byte == ' '?? && $byte != ' cc' ]]
}

# bats test_tags=alone
@test "overhead: run with none removes nothing" {
	fsn run g 'turn_*' --lib "$FIX/turns" --overhead none --output "$BATS_TEST_TMPDIR/json" --json -- \
		bash -c "exec '$FIX/turns' 0.2 1 >'$BATS_TEST_TMPDIR/own'"
	refute_stderr_match "left out meanwhile"
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_eq "$(group_counts)" "$(turns_counts "$BATS_TEST_TMPDIR/own")"
	assert_json '.[0].functions | map(select(.name | startswith("turn_hot")) | .calls) | add >= 64' true
}

# bats test_tags=alone
@test "overhead: functions selected by name are kept while they run, with a remark" {
	fsn run g turn_kept turn_nested turn_hot0 --lib "$FIX/turns" --output "$BATS_TEST_TMPDIR/json" --json -- \
		bash -c "exec '$FIX/turns' 0.3 1 >'$BATS_TEST_TMPDIR/own'"
	assert_stderr_match "^funcsnoop run: the probes cost [0-9]+ % of the program's own CPU time, more than 10 %: functions selected by name are kept$"
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_json '.[0].functions | map(select(.name == "turn_hot0")) | length' 1
	assert_eq "$(group_counts)" "$(turns_counts "$BATS_TEST_TMPDIR/own")"
}

# bats test_tags=alone
@test "overhead: a detach while probes are removed harms nobody" {
	local i

	for i in 1 2 3; do
		start_bg turns "$FIX/turns" 1.5 2
		poll_until grep -qF /turns "/proc/$(bg_pid turns)/maps"
		start_bg run "$FUNCSNOOP" run "storm$i" 'turn_*' --lib "$FIX/turns" -d 5
		poll_until compgen -G "$FUNCSNOOP_BPFFS/funcsnoop/storm$i*" >/dev/null
		sleep "0.$((i * 3))"
		"$FUNCSNOOP" detach --all || true
		wait_bg run || true
		wait_bg turns
	done
	poll_until left_nothing
	holds_only ""
}

# --- the estimate, beside the program's own clock ----------------------------------------------

# pays(1) of the fixtures calls a function and its copy without probes in turn, a millisecond each, so
# that what disturbs the machine for longer disturbs both, and prints the median of their differences
# in CPU time. A slow moment makes a calibration or a measurement too high, never too low: the
# lowest of three calibrations, which all tests share, and of six measurements count. The first ones
# are enough if they agree within 10 %.
quotient_of() { # ESTIMATED LONGER: of the lowest of each
	awk -v longer="$2" -v estimated="$1" '
		function lowest(text, n, i, all) {
			n = split(text, all)
			for (i = 2; i <= n; i++)
				if (all[i] + 0 < all[1] + 0)
					all[1] = all[i]
			return all[1]
		}
		BEGIN { print lowest(estimated) / lowest(longer) }'
}

is_within() { # QUOTIENT MOST
	awk -v q="$1" -v most="$2" 'BEGIN { exit !(q > 1 / most && q < most) }'
}

assert_estimate() { # call|deep|heap ATTACH-OPTION...; with $reader: stream has these options
	local kind=$1 nth calls longer='' estimated='' quotient

	need_fast_probes
	shift
	for nth in 1 2 3; do
		use_calibration $nth
		fsn attach g "$@" --overhead none
		[[ ! ${reader-} ]] || start_stream
		calls=0
		for _ in 1 2; do
			capture "$FIX/pays" "$kind" 41 1000
			[[ $output =~ ^calls=([0-9]+)\ longer_ns=([0-9.]+)$ ]]
			calls=$((calls + BASH_REMATCH[1])) longer+=" ${BASH_REMATCH[2]}"
		done
		fsn stats g --json
		estimated+=" $(json -e ".[0] | select((.functions | map(.calls) | add) == $calls).cost_ns / $calls")"
		[[ ! ${reader-} ]] || stop_bg -INT stream
		fsn detach g
		quotient=$(quotient_of "$estimated" "$longer")
		! is_within "$quotient" 1.1 || return 0
	done
	is_within "$quotient" 1.2 ||
		fail "the estimate is $quotient times of what calls took longer: $estimated to $longer ns"
}

# A calibration that the first test with this number makes.
use_calibration() { # NTH
	local made=$BATS_FILE_TMPDIR/calibration-$1

	if [[ -e $made ]]; then
		cp -p "$made" /run/funcsnoop/calibration
	else
		fsn feature --calibrate
		cp -p /run/funcsnoop/calibration "$made"
	fi
}

start_stream() {
	# shellcheck disable=SC2086	# options
	start_bg stream "$FUNCSNOOP" stream g --json -o "$BATS_TEST_TMPDIR/stream.json" $reader
	poll_until grep -q watching "$(bg_err stream)"
}

# bats test_tags=alone
@test "overhead: the estimate is what calls take longer" {
	assert_estimate call paid_call --lib "$FIX/pays"
}

# bats test_tags=alone
@test "overhead: the estimate is right for functions that are only counted" {
	assert_estimate call paid_call --lib "$FIX/pays" --count
}

# bats test_tags=alone
@test "overhead: the estimate includes a key that is a number" {
	assert_estimate call paid_call --lib "$FIX/pays" --key n
}

# bats test_tags=alone
@test "overhead: the estimate includes a key that is text" {
	assert_estimate call paid_call --lib "$FIX/pays" --key text
}

# bats test_tags=alone
@test "overhead: the estimate includes stacks" {
	assert_estimate deep paid_call --lib "$FIX/pays" --stacks all
}

# bats test_tags=alone
@test "overhead: the estimate includes stacks of slow calls" {
	assert_estimate deep paid_call --lib "$FIX/pays" --stacks slow --slow 1ns
}

# bats test_tags=alone
@test "overhead: the estimate includes --split" {
	assert_estimate call paid_call --lib "$FIX/pays" --split
}

# bats test_tags=alone
@test "overhead: the estimate includes memory" {
	heap_config
	assert_estimate heap --config "$BATS_TEST_TMPDIR/g.json" --memory
}

# bats test_tags=alone
@test "overhead: the estimate includes memory by stack" {
	heap_config
	assert_estimate heap --config "$BATS_TEST_TMPDIR/g.json" --memory --stacks all
}

heap_config() {
	cat >"$BATS_TEST_TMPDIR/g.json" <<-END
		{ "lib": "$FIX/pays", "g_sym": {
			"paid_malloc": { "ret": "void *", "error": "null", "args": ["size_t size"],
				"allocates": { "pointer": "result", "size": "size" } },
			"paid_free": { "ret": "void", "args": ["void *block"], "frees": "block" } } }
	END
}

# bats test_tags=alone
@test "overhead: the estimate includes a stream" {
	local reader='--events call'

	assert_estimate call paid_call --lib "$FIX/pays"
}

# bats test_tags=alone
@test "overhead: the estimate includes a stream of entries and of calls with keys" {
	local reader='--events all'

	assert_estimate call paid_call --lib "$FIX/pays" --key text
}

# bats test_tags=alone
@test "overhead: after a reset the few calls since then cost what calls did before" {
	local before

	need_fast_probes
	fsn attach g paid_call --lib "$FIX/pays" --stacks all
	capture "$FIX/pays" deep 11 1000
	fsn stats g --reset --json
	before=$(json '.[0].cost_ns / 11000')
	capture "$FIX/pays" deep 1 10
	fsn stats g --json
	assert_json ".[0].cost_ns / 10 / $before | . > 0.8 and . < 1.25" true
	fsn detach g
}

@test "overhead: a limit that has nothing to limit says so" {
	local note='^funcsnoop attach: --overhead limits nothing here, only functions of '

	fsn attach g rate_cold --lib "$RATES" --overhead 5%
	assert_stderr_match "$note"
	fsn attach h s:getppid -p $$ --overhead 5%
	assert_stderr_match "$note"
	fsn attach i 'rate_c*' --lib "$RATES" --overhead 5%
	refute_stderr_match "$note"
	fsn detach --all
}
