#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Go functions: their arguments, which Go passes in registers of its own choice, and their times,
# although goroutines change their threads and the places of their stacks.

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
	need_fixture goargs
	GOARGS=$FIX/goargs
}

# run OPTION... -- COMMAND...: $output is the JSON that it writes
json_run() {
	fsn -q run --json -o "$BATS_TEST_TMPDIR/out" "$@"
	output=$(<"$BATS_TEST_TMPDIR/out")
}

# "FUNCTION ARGS" of each call, in their order: CALLS OPTION... of FUNCTION...
go_calls() {
	local calls=$1

	shift
	json_run "${@/#/$GOARGS:}" --stream --events entry -- "$GOARGS" "$calls"
	output=$(jq -c '[.function, .args]' <<<"$output")
}

@test "go: arguments are read from Go's registers, strings with their length" {
	go_calls 3 main.words
	output=$(jq -sc 'map(.[1] | .at = (.at != null) | [.n, .minus, .small, .at, .text, .last])' <<<"$output")
	if [[ $(uname -m) == x86_64 ]]; then
		assert_output '[[0,0,0,true,"",null],[1,-1,1,true,"call 1",null],[2,-2,2,true,"call 2",null]]'
	else
		assert_output '[[0,0,0,true,"",9],[1,-1,1,true,"call 1",10],[2,-2,2,true,"call 2",11]]'
	fi
}

@test "go: floating point arguments take no register of the others" {
	go_calls 3 main.reals
	assert_eq "$(jq -sc 'map(.[1])' <<<"$output")" \
		'[{"n":0,"half":null,"triple":0},{"n":1,"half":null,"triple":3},{"n":2,"half":null,"triple":6}]'
}

@test "go: the words of a structure are shown, and what shares a word is not" {
	go_calls 2 main.point.pair main.small
	assert_eq "$(jq -sc . <<<"$output")" \
		'[["main.point.pair",{"p":["0x0","0x0"],"seven":7}],["main.small",{"p":null,"after":40}],["main.point.pair",{"p":["0x1","0x2"],"seven":7}],["main.small",{"p":null,"after":41}]]'
}

@test "go: keys, sums and conditions see all registers, also those that are not kept" {
	json_run "$GOARGS:main.many" --if 'i >= 9' --key g --sum h --sum a --by g -- "$GOARGS" 4
	assert_json '[.[0].functions[0].rows[] | [.key.g.value, .calls, .sums.h, .sums.a]] | sort' \
		'[[7,1,8,1],[8,1,9,2],[9,1,10,3]]'
}

@test "go: the package can be omitted if only one has the function" {
	local typed

	for typed in '(*Once).doSlow' Once.doSlow; do
		fsn list targets "$GOARGS:$typed" --json
		assert_json '.[0].name' 'sync.(*Once).doSlow'
	done
	json_run "$GOARGS:point.pair" "$GOARGS:words" -- "$GOARGS" 3
	assert_json '.[0].functions | map([.name, .calls]) | sort' '[["main.point.pair",3],["main.words",3]]'
	fsn -s 1 attach g "$GOARGS:main"
	assert_stderr_match "did you mean '.*goargs:runtime.main' or '.*goargs:main.main'$"
	fsn -s 1 attach g "$GOARGS:(*Nosuch).pair"
	refute_stderr_match "point.pair"
}

@test "go: results are those of the first result's type" {
	fsn list targets "$GOARGS:main.words" "$GOARGS:main.reals" "$GOARGS:main.point.pair" --json
	assert_json '[.[] | [.name, .ret, .types_why]] | sort' \
		'[["main.point.pair","int","DWARF"],["main.reals","float64","DWARF"],["main.words","int","DWARF"]]'
}

@test "go: a condition on a string is refused, because no zero byte ends it" {
	fsn -s 2 attach g main.words --lib "$GOARGS" --if 'text == "call 1"' --dry-run
	assert_stderr_match "'text' is a string of Go, which has a length in place of a last byte"
}

@test "go: without debug information the registers are shown in Go's order" {
	local stripped=$BATS_TEST_TMPDIR/goargs

	objcopy --remove-section '.debug_*' --remove-section '.zdebug_*' "$GOARGS" "$stripped"
	GOARGS=$stripped
	go_calls 2 main.many
	assert_eq "$(jq -sc 'map(.[1] | [.arg1, .arg2, .arg3, .arg4, .arg5, .arg6])' <<<"$output")" \
		'[["0x0","0x1","0x2","0x3","0x4","0x5"],["0x1","0x2","0x3","0x4","0x5","0x6"]]'
	json_run "$GOARGS:main.many" --if 'arg3 == 3' -- "$GOARGS" 5
	assert_json '.[0].functions[0].calls' 1
}

@test "go: assembly in a Go program shows no arguments" {
	fsn list targets "$GOARGS:runtime.memmove" --json
	assert_json '.[0].declared' false
	go_calls 1 runtime.memmove
	assert_eq "$(jq -sc 'length > 0, (map(.[1]) | unique)' <<<"$output")" $'true\n[null]'
}

@test "go: a table of an unknown version shows no arguments" {
	local old=$BATS_TEST_TMPDIR/goargs at

	cp "$GOARGS" "$old"
	at=$(readelf -SW "$old" | sed -n 's/.*[.]gopclntab *PROGBITS *[0-9a-f]* *\([0-9a-f]*\).*/\1/p')
	printf '\xfa' | dd of="$old" bs=1 seek=$((16#$at)) conv=notrunc status=none
	fsn -s 2 attach g main.many --lib "$old" --if 'arg1 == 1' --dry-run
	assert_stderr_match "no argument 'arg1' is known"
}

@test "go: the glob * leaves the runtime and the standard library out, others do not" {
	local glob

	fsn list targets "$GOARGS:*" --json
	assert_json '[.[].name | split(".")[0]] | unique' '["main"]'
	for glob in 'runtime.*' '*mallocgc' '**'; do
		fsn list targets "$GOARGS:$glob" --json
		assert_json 'any(.[]; .name == "runtime.mallocgc")' true
	done
}

# --- times ------------------------------------------------------------------------------

# Runs gocalls with GOMAXPROCS=N under a group of its functions, and compares calls, returns and
# total time of each with the program's own counters: the total is between the sums of the times
# that the program read inside the calls and around them.
go_times() { # N ATTACH-OPTION...
	need_fixture gocalls
	cp "$FIX/gocalls" "$BATS_TEST_TMPDIR/own-gocalls"
	fsn attach g 'main.go*' --lib "$BATS_TEST_TMPDIR/own-gocalls" --overhead none \
		--without correction "${@:2}"
	capture env GOMAXPROCS="$1" "$BATS_TEST_TMPDIR/own-gocalls" 10
	own=$output
	fsn stats g --json
	assert_sound
	assert_eq "$(json --arg own "$own" '.[0].functions as $ours | $own | split("\n") | map(split(" ")
		| [.[0]] + (.[1:] | map(tonumber)) | . as [$name, $calls, $returns, $inside, $around]
		| $ours[] | select(.name | ascii_downcase == "main.go" + $name)
		| if .calls == $calls and (.returns // 0) == $returns and ($returns == 0
			or (.total_ns >= $inside and .total_ns <= $around))
		then "exact" else [$name, $calls, $returns, $inside, $around, .calls, .returns, .total_ns]
		end) | group_by(.) | map([.[0], length])')" '[["exact",11]]' "counts and times of functions"
}

@test "go: calls and times are exact while goroutines wait, move, panic and end" {
	go_times 8
	# These would be of a thread, and a goroutine has several.
	assert_json '[.[0].functions[] | .self_ns, .on_cpu_ns] | unique' '[null]'
	fsn detach g
}

@test "go: calls and times are exact if all goroutines share a thread" {
	go_times 1 --with split
	assert_json '[.[0].functions[] | .self_ns, .on_cpu_ns] | unique' '[null]'
	fsn detach g
}

# A loop is interrupted, and the goroutine continues in another thread or after others in its own.
@test "go: functions that call nothing have neither self nor CPU times" {
	fsn attach g main.many --lib "$GOARGS" --overhead none --with split
	assert_stderr_match '^funcsnoop attach: --with split is without effect: goroutines have no CPU times, threads have$'
	capture "$GOARGS" 20
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, .returns, .total_ns != null, .self_ns, .on_cpu_ns,
		.queued_ns, .blocked_ns]' '[20,20,true,null,null,null,null]'
	fsn stats g
	refute_output_match 'CPU%|SELF'
	fsn detach g
	json_run "$GOARGS:main.many" --overhead none --with split --stream -- "$GOARGS" 3
	assert_eq "$(jq -sc 'map([.duration_ns != null, .on_cpu_ns])' <<<"$output")" '[[true,null],[true,null],[true,null]]'
}

@test "go: --with split is for the functions in C of a group" {
	fsn attach g "$GOARGS:main.many" "$FIX/libfix.so:fix_add" --with split --dry-run
	refute_stderr_match 'without effect'
}

# The guard removes probes of functions while the program runs, or after it.
@test "go: functions that are being left out are not shown with fewer calls" {
	need_fixture gocalls
	cp "$FIX/gocalls" "$BATS_TEST_TMPDIR/own-gocalls"
	for _ in 1 2 3; do
		fsn attach g 'main.go*' --lib "$BATS_TEST_TMPDIR/own-gocalls"
		capture env GOMAXPROCS=8 "$BATS_TEST_TMPDIR/own-gocalls" 10
		own=$output
		fsn stats g --json
		assert_eq "$(json --arg own "$own" '.[0].functions as $ours | $own | split("\n")
			| map(split(" ")) | [.[] | . as [$name, $calls] | $ours[]
			| select((.name | ascii_downcase == "main.go" + $name) and
				(.calls | tostring) != $calls) | [$name, .calls]]')" '[]'
		fsn detach g
	done
}

@test "go: goroutines that end or panic leave calls that have no time" {
	go_times 8
	assert_json '.[0].functions[] | select(.name == "main.goQuits") |
		[.returns, .untimed + .abandoned + .in_flight, .total_ns]' '[0,80,null]'
	assert_json '.[0].functions[] | select(.name == "main.goPanics") | .untimed' 80
	fsn detach g
}

@test "go: calls are grouped by the number of their goroutine" {
	need_fixture gocalls
	fsn attach g main.goYields main.goRecurses --lib "$FIX/gocalls" --by goroutine
	capture "$FIX/gocalls" 7
	own=$(sed -n 's/^goroutine \(.*\)/[\1,7]/p' <<<"$output" | jq -sc sort)
	fsn stats g --json
	assert_json '.[0].functions[] | select(.name == "main.goYields").rows
		| map([.key.goroutine.value, .calls]) | sort' "$own"
	# Each runs in one of its own.
	assert_json '.[0].functions[] | select(.name == "main.goRecurses").rows | [length, (map(.calls) | unique)]' '[56,[51]]'
	fsn detach g
}

@test "go: without debug information no goroutine is known" {
	objcopy --remove-section '.debug_*' --remove-section '.zdebug_*' "$GOARGS" "$BATS_TEST_TMPDIR/goargs"
	fsn -s 2 attach g main.many --lib "$BATS_TEST_TMPDIR/goargs" --by goroutine
	assert_stderr_match "--by 'goroutine' needs debug information, of which there is none"
}

@test "go: functions in C of the same group keep their self times" {
	local view

	need_fixture gocalls
	cp "$FIX/gocalls" "$BATS_TEST_TMPDIR/own-gocalls"
	fsn attach g "$BATS_TEST_TMPDIR/own-gocalls:main.goYields" "$FIX/libfix.so:fix_add"
	capture "$BATS_TEST_TMPDIR/own-gocalls" 1
	capture "$FIX/call" add 20
	fsn stats g --json
	assert_json '[.[0].functions[] | [.name, .returns, .self_ns != null]] | sort' \
		'[["fix_add",20,true],["main.goYields",8,false]]'
	# calls of goroutines may be in each other: no shares of a sum, and no sum
	for view in "" "--by library" "--show tree" "--by process"; do
		# shellcheck disable=SC2086
		fsn stats g $view
		refute_output_match 'TIME%'
	done
	fsn stats g
	assert_output_match '^total +28 +- '
	fsn stats g --show tree
	assert_output_match '^fix_add +20 +[^-]+$'
	assert_output_match '^total +28 +- +-$'
	fsn detach g
}

# True if N calls of FUNCTION in progress are listed.
in_flight() { # FUNCTION N
	fsn list inflight g --all --json
	[[ $(json --arg name "$1" '[.[] | select(.function == $name)] | length') == "$2" ]]
}

@test "go: calls in progress are listed until the program exits" {
	need_fixture gocalls
	cp "$FIX/gocalls" "$BATS_TEST_TMPDIR/own-gocalls"
	fsn attach g main.work --lib "$BATS_TEST_TMPDIR/own-gocalls"
	start_bg go "$BATS_TEST_TMPDIR/own-gocalls" 1000000000
	poll_until in_flight main.work 8
	kill -KILL "$(bg_pid go)"
	poll_until bg_ended go
	poll_until in_flight main.work 0
	fsn detach g
}
