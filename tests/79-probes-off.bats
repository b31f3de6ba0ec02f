# SPDX-License-Identifier: BSD-2-Clause
# Times of calls have nothing in them of probes that are not theirs, and of CPU time lost in probes.
# Alone: times are compared with clocks.
# bats file_tags=bpf,alone

load helpers

setup() {
	common_setup
	own_run
}

# NAME CALLS RETURNS UNTIMED of all functions.
counts() {
	json -r '.[0].functions[] | "\(.name) \(.calls) \(.returns) \(.untimed)"' | sort
}

@test "tail calls: times of other calls exclude the probes of the target" {
	local try

	need_fast_probes
	need_arch x86_64
	fsn attach g calls_helper jumps_to_helper --lib "$FIX/others" --exit ret
	# Three single-steps are in each call, 30 us. Where another took the CPU, it is tried again.
	for try in 1 2 3 4; do
		fsn reset g
		capture chrt -f 1 "$FIX/others" tails 300
		fsn stats g --json
		[[ $(json '.[0].functions | map({ (.name): . }) | add | .calls_helper |
			.avg_ns < 400 and .self_ns < 400 * .calls') != true ]] || break
	done
	assert_json '.[0].functions | map({ (.name): . }) | add | .calls_helper |
		[.calls, .returns, .avg_ns < 400, .self_ns < 400 * .calls]' '[300,300,true,true]'
	fsn detach g
}

@test "tail calls: breakpoints of a target that others call more often are removed" {
	local links

	need_bpf
	need_arch x86_64
	fsn attach g calls_helper jumps_to_helper --lib "$FIX/others" --exit ret
	links=$(find "$FUNCSNOOP_BPFFS/funcsnoop/g" -name 'link_*' | wc -l)
	capture "$FIX/others" tails 2000
	fsn stats g --json
	# Others end there three times as often: it is known after 1024 hits.
	assert_eq "$(counts)" "calls_helper 2000 2000 0
jumps_to_helper 2000 256 1744"
	assert_json '.[0].functions[] | select(.name == "calls_helper").calls' 2000
	fsn reset g
	[[ $(find "$FUNCSNOOP_BPFFS/funcsnoop/g" -name 'link_*' | wc -l) -lt $links ]] ||
		fail "no link is gone"
	capture "$FIX/others" tails 300
	fsn stats g --json
	assert_eq "$(counts)" "calls_helper 300 300 0
jumps_to_helper 300 0 300"
	# Without a single-step in them, calls cost what those of the function itself do.
	assert_json_true '.[0].functions[] | select(.name == "calls_helper").avg_ns < 30000'
	fsn detach g
}

# A function of no time shows no more than the error of its probes, or is marked.
assert_lost() { # THREADS
	local calls spun short

	need_fast_probes
	fsn attach g 'others_*' --lib "$FIX/others" --exit ret
	capture "$FIX/others" threads "$1" 10000
	read -r _ calls spun <<<"$output"
	fsn stats g --json
	assert_eq "$(counts)" "others_adds $calls $calls 0
others_pushes $calls $calls 0
others_spins $calls $calls 0"
	# Its own clock says how much of the time was in the calls, by far the most.
	assert_json_true ".[0].functions[] | select(.name == \"others_spins\") |
		.total_ns > $spun * 0.75 and .total_ns < $spun * 1.3"
	assert_json_true ".[0].functions[] | select(.name == \"others_adds\") | .total_ns < $spun / 2"
	short=$(json -c '.[0].functions | map({ (.name): .avg_ns }) | add |
		[.others_adds <= 3000, .others_pushes <= 400]')
	fsn stats g
	[[ $short == \[true,* ]] || assert_output_match "^others_adds +$calls +[0-9.]+ +~"
	[[ $short == *,true\] ]] || assert_output_match "^others_pushes +$calls +[0-9.]+ +~"
	fsn detach g
}

@test "threads: times of calls exclude CPU time lost in probes, with 4 threads" {
	assert_lost 4
}

@test "threads: times of calls exclude CPU time lost in probes, with 8 threads" {
	assert_lost 8
}
