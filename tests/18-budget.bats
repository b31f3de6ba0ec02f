#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# --budget: entries are counted for a moment, then what would take more of a CPU than was
# granted is sampled, counted only or left out. Who gets what is by prices that are so far
# apart that the machine's load decides nothing.
# bats file_tags=bpf

load helpers

RATES=$FIX/rates

setup() {
	common_setup
	need_bpf
	need_tool jq
	# The tests have a mount namespace of their own, and here a /run/funcsnoop of their own.
	[[ -d /run/funcsnoop ]] || mkdir -m 700 /run/funcsnoop
	mount -t tmpfs -o mode=700 funcsnoop-test /run/funcsnoop
}

teardown() {
	umount /run/funcsnoop
	common_teardown
}

# Entries of half a microsecond, calls that are timed of a tenth of a millisecond.
set_prices() { # [LINK]: where it is not the best one, by the prices of that
	local class prices=''

	for class in 500 100000 100000 100000 100000; do
		prices+=" 0 $class 0"
	done
	fsn feature --calibrate
	sed -i -E "s/^[a-z]+ (of [^ ]+ at [0-9]+ spread [0-9]+):.*/${1-$(link_of)} \1:$prices$prices/" \
		/run/funcsnoop/calibration
}

link_of() {
	"$FUNCSNOOP" feature --json | jq -r .attach.link
}

start_rates() {
	start_bg rates "$RATES"
	poll_until grep -qF /rates "/proc/$(bg_pid rates)/maps"
}

limits() { # of $output, attach's or of list functions
	json -c '.[0].functions | map([.name, .limited]) | sort'
}

is_tried() { # GROUP: its links are in their nameless folder
	compgen -G "$FUNCSNOOP_BPFFS/funcsnoop/$1~/link_*" >/dev/null
}

# Without the help of a next command.
left_nothing() {
	[[ -z $(ls -A "$FUNCSNOOP_BPFFS/funcsnoop") ]]
}

@test "with --budget what is called without a pause is left out, what is called often limited" {
	local often=sampled

	set_prices
	[[ $(link_of) == session ]] || often='counted only'
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --budget 5%
	assert_output_match "^g: probes are to take [0-9.e-]+ % of a CPU by the calls of [0-9.]+ [mu]?s, of 5 % granted$"
	assert_output_match "^g: $often: 1, 'rate_warm' \((1 of 4096, )?[0-9]+ calls/s\)$"
	assert_output_match "^g: left out: 1, 'rate_hot' \([0-9]+ calls/s\)$"
	refute_output_match rate_cold
	fsn list functions g --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot","left out"],["rate_warm","'"$often"'"]]'
	assert_json '.[0].functions[] | select(.limited == "left out") | [.symbol, .site_offset, (.refused | test("^--budget: [0-9]+ calls/s$"))]' \
		'["rate_hot",null,true]'
	assert_json '.[0].budget | [.granted_ns_per_s, .tried_ns <= 1100000000, .cost_ns_per_s <= 50000000]' \
		'[50000000,true,true]'
	fsn list functions g
	assert_output_match '^rate_hot .* left out +--budget: [0-9]+ calls/s$'
	fsn list -v
	assert_output_match "; within 5 % of a CPU: 1 $often, 1 left out; attached "
	fsn list --json
	assert_json '.[0] | [.functions, .options.granted_ns_per_s]' '[2,50000000]'
	fsn stats g --all --json
	assert_json '.[0].functions | map(.name) | sort' '["rate_cold","rate_warm"]'
	stop_bg rates
	fsn detach g
}

@test "of functions that are sampled one call of so many is timed, and all are counted" {
	[[ $(link_of) == session ]] || skip "no session links: nothing is sampled"
	set_prices
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --budget 5% --json
	fsn reset g
	poll_until has_sampled
	stop_bg rates
	fsn stats g --json
	# Each CPU counts its own calls, of which it times one of so many.
	assert_json '.[0].functions[] | select(.name == "rate_warm") | .untimed + .returns == .calls + .carried and .returns <= .calls / 4096 + '"$(nproc)" true
	assert_json '.[0].functions[] | select(.name == "rate_cold") | .untimed' 0
	fsn stats g
	assert_stderr_match 'samples of the calls of some functions are timed: their times and errors are of these$'
	fsn detach g
}

has_sampled() {
	"$FUNCSNOOP" stats g --json | jq -e '.[0].functions | any(.name == "rate_warm" and .returns > 1) and
		any(.name == "rate_cold" and .returns > 0)'
}

@test "where each end is seen and paid for, what is called often is only counted" {
	set_prices multi
	start_rates
	fsn attach g 'rate_*' --lib "$RATES" --budget 5% --link multi --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot","left out"],["rate_warm","counted only"]]'
	assert_json '.[0].functions[] | select(.name == "rate_warm") | [.exit, (.exit_why | test("^--budget: [0-9]+ calls/s$"))]' \
		'["none",true]'
	stop_bg rates
	fsn detach g
}

@test "what nobody calls within a second is all timed" {
	set_prices
	fsn attach g 'rate_*' --lib "$RATES" --budget 0.01% --json
	assert_eq "$(limits)" '[["rate_cold",null],["rate_hot",null],["rate_warm",null]]'
	assert_json '.[0].budget | [.granted_ns_per_s, .tried_ns >= 1000000000, .cost_ns_per_s]' '[100000,true,0]'
	fsn detach g
}

@test "where all would have to be left out nothing is attached" {
	set_prices
	start_rates
	fsn -s 1 attach g rate_hot --lib "$RATES" --budget 5%
	assert_stderr_match "^funcsnoop attach: cannot attach group 'g': no function can be probed: 'rate_hot': --budget: [0-9]+ calls/s$"
	stop_bg rates
	holds_only ""
}

@test "an attach that is killed while it counts entries leaves nothing, nor one that is ended" {
	local signal

	set_prices
	for signal in KILL TERM; do
		start_bg try "$FUNCSNOOP" attach g 'rate_*' --lib "$RATES" --budget 5%
		poll_until is_tried g
		stop_bg -$signal try
		poll_until left_nothing
	done
}

@test "--replace keeps the old group until the trial is over, and for good where it fails" {
	set_prices
	start_rates
	fsn attach g rate_cold --lib "$RATES"
	fsn -s 1 attach g 'rate_hot' --lib "$RATES" --budget 5% --replace
	fsn list functions g --json
	assert_json '.[0] | [.budget, (.functions | map(.name))]' '[null,["rate_cold"]]'
	fsn -s 1 attach g rate_cold --lib "$RATES" --budget 5%
	assert_stderr_match "group 'g' is attached already$"
	fsn attach g 'rate_*' --lib "$RATES" --budget 5% --replace
	fsn list functions g --json
	assert_eq "$(limits | jq -c 'map(select(.[1] == null))')" '[["rate_cold",null]]'
	stop_bg rates
	fsn detach g
}

@test "run keeps to a budget, too, but not around COMMAND" {
	set_prices
	start_rates
	fsn run g 'rate_*' --lib "$RATES" --budget 5% -d 0.2 --all --json
	assert_json '.[0].functions | map(.name) | sort' '["rate_cold","rate_warm"]'
	stop_bg rates
	fsn -s 2 run g 'rate_*' --lib "$RATES" --budget 5% -- "$RATES" 0.1
	assert_stderr_match '^funcsnoop run: --budget needs calls to count, before COMMAND has made one$'
	holds_only ""
}
