#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# --by flat: self and total of each function, by samples or calls.
# bats file_tags=bpf

load helpers

STACKS=$FIX/stacks

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# st_plain calls st_call, which calls st_leaf: three stacks, of which two are alike.
@test "flat: each function of the stacks has its own calls and those below it" {
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain plain thread
	fsn stats st --by flat --all
	assert_output_match '^SELF% +TOTAL% +SAMPLES +FUNCTION$'
	assert_output_match '^100\.0 +100\.0 +3 +st_leaf$'
	assert_output_match '^ +0\.0 +100\.0 +0 +st_call$'
	assert_output_match '^ +0\.0 +100\.0 +0 +st_plain$'
	assert_output_match '^ +0\.0 +66\.7 +0 +st_case$'
	assert_output_match '^ +0\.0 +33\.3 +0 +st_thread$'
	fsn stats st --by flat --all --format csv
	assert_output_match ",100.000,100.000,3,st_leaf"
	fsn detach st
}

# Nine tenths of the time are in burn_hot(): of 250 samples or more a share below 0.78 has a chance of
# less than 10^-9.
@test "run cpu: a flat profile has the share of the function that burns" {
	local out=$BATS_TEST_TMPDIR/out hot cold

	capture "$FUNCSNOOP" run cpu --rate 499 --all -o "$out" -- "$FIX/waits" burn 60
	assert_eq "$(grep -c '^SELF% *TOTAL% *SAMPLES *FUNCTION' "$out")" 1
	hot=$(awk '$NF == "burn_hot" { print int($2 * 10) }' "$out")
	cold=$(awk '$NF == "burn_cold" { print int($2 * 10) }' "$out")
	assert_between $((hot * 100 / (hot + cold))) 78 100 "share of burn_hot"
	capture "$FUNCSNOOP" run cpu --by function -o "$out" -- "$FIX/waits" burn 60
	grep -q '^SELF% ' "$out"
}

# dd has its time in read() and write().
@test "flat: --without kernel gives the time of the kernel to the functions that enter it" {
	local copy=$BATS_TEST_TMPDIR/own-copy out=$BATS_TEST_TMPDIR/out words

	cp "$(type -P dd)" "$copy"
	for words in '' '--by stack'; do
		# shellcheck disable=SC2086 # words
		fsn run cpu --sample 999hz $words -o "$out" -- "$copy" if=/dev/zero of=/dev/null bs=1M count=4000
		grep -q '_\[k\]' "$out"
		# shellcheck disable=SC2086 # words
		fsn run cpu --sample 999hz $words --without kernel -o "$out" -- \
			"$copy" if=/dev/zero of=/dev/null bs=1M count=4000
		! grep -q '_\[k\]' "$out"
	done
	fsn run cpu --sample 999hz --without kernel -o "$out" -- \
		"$copy" if=/dev/zero of=/dev/null bs=1M count=4000
	assert_between "$(awk '$4 == "read" || $4 == "write" { self += $1 } END { print int(self) }' "$out")" 30 100
}

# The probes are in a hot loop: most of its time is theirs.
@test "flat: --without kernel leaves the time of probes out of the functions that have them" {
	start_bg rates "$FIX/rates"
	wait_line rates '^running$'
	fsn attach g rate_hot --lib "$FIX/rates"
	fsn run cpu --sample 499hz -p "$(bg_pid rates)" --without kernel -d 1
	assert_output_match '^ *[1-9][0-9]*\.[0-9] +[0-9.]+ +[0-9]+ +\[probes\]$'
	(($(awk '$4 == "rate_hot" { print int($1) }' <<<"$output") < 50))
	refute_stderr_match "has no names"
	stop_bg rates
	fsn detach g
}

# A row of the table for each process, from the innermost frames of its rows in the document.
shares() {
	json '.[0].functions[0] | (.calls / 100) as $all | .rows as $rows | .processes[] | .pid as $pid
		| [$rows[] | select(.pid == $pid) | {calls, k: (.key.stack.frames[0].name | endswith("_[k]"))}] as $of
		| [$pid, .calls / $all, ([$of[] | select(.k | not).calls] | add // 0) / $all,
			([$of[] | select(.k).calls] | add // 0) / $all, .calls] | @tsv' -r |
		awk '{ printf "%d %.1f %.1f %.1f %d\n", $1, $2, $3, $4, $5 }' | sort
}

@test "cpu: each process has its share of the samples, and of those in user mode and in the kernel" {
	local burn=$BATS_TEST_TMPDIR/own-burn copy=$BATS_TEST_TMPDIR/own-copy

	cp "$BASH" "$burn"
	cp "$(type -P dd)" "$copy"
	fsn attach c cpu --sample 999hz --if comm==own-burn,own-copy
	until [[ $("$FUNCSNOOP" stats c --by process) =~ own-burn.*own-copy|own-copy.*own-burn ]]; do
		"$burn" -c 'for ((i = 0; i < 100000; i++)); do :; done'
		capture "$copy" if=/dev/zero of=/dev/null bs=1M count=500
	done
	fsn stats c --by process
	assert_output_match '^ +PID +COMMAND +STATE +SHARE +USER% +KERNEL% +SAMPLES$'
	refute_stderr_match 'stacks are complete'
	assert_eq "$("$FUNCSNOOP" stats c --by process --format csv | awk -F, '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i == "functions") at = i }
		$4 ~ /^own-/ { print $at }' | sort -u)" 1
	table=$(awk '/own-/ { print $1, $4, $5, $6, $7 }' <<<"$output" | sort)
	fsn stats c --json
	assert_eq "$table" "$(shares)"
	fsn detach c
	fsn attach c cpu --by none --if comm==own-burn
	until [[ $("$FUNCSNOOP" stats c --by process) == *own-burn* ]]; do
		"$burn" -c 'for ((i = 0; i < 100000; i++)); do :; done'
	done
	fsn stats c --by process
	assert_output_match '^ +PID +COMMAND +STATE +SHARE +SAMPLES$'
	assert_output_match '^ *[0-9]+ +own-burn +ended +[0-9.]+ +[0-9]+$'
	fsn detach c
}

@test "cpu: a table of few samples says how few, one of none why, in one line" {
	local n report

	cp "$FIX/waits" "$BATS_TEST_TMPDIR/own-few"
	fsn attach c cpu --if comm==own-few
	n=0
	until ((n)); do
		capture "$BATS_TEST_TMPDIR/own-few" burn 5
		fsn stats c
		report=$output
		fsn stats c --json
		n=$(json '[.[0].functions[].calls] | add // 0')
	done
	output=$report
	if ((n < 50)); then
		assert_output_match "^shares are rough: $n samples?$"
	else
		refute_output_match 'rough'
	fi
	fsn detach c
	fsn attach c cpu --if comm==own-none
	fsn stats c
	assert_eq "$(sed 1d <<<"$output")" "no thread was on a CPU when a sample was taken"
	fsn detach c
}
