#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Output of funcsnoop stream: formats, escapes, files, pipes, terminals, signals, full disks,
# syslog.
# bats file_tags=bpf

load helpers
load stream

OUT=

setup() {
	common_setup
	OUT=$BATS_TEST_TMPDIR/out
}

# --- JSON ---------------------------------------------------------------------------------

@test "JSON: an object a line, with these members" {
	attach_typed
	start_stream s g --json --events all
	capture "$FIX/call" --arg 2 --comm caller fail 1
	stop_stream s
	assert_eq "$(jq -c 'keys_unsorted' <<<"$output" | sed -n 1p)" \
		'["type","ts_ns","time","group","function","pid","tid","comm","args","cookie"]'
	assert_eq "$(jq -c 'keys_unsorted' <<<"$output" | sed -n 2,3p | sort -u)" \
		'["type","ts_ns","time","group","function","pid","tid","comm","args","ret","ret_name","duration_ns","noise_ns","slow","failed","cookie"]'
	assert_eq "$(jq -c 'select(.type == "call") |
		[.group, .function, .comm, .args, .ret, .ret_name, .slow, .failed]' <<<"$output")" \
		'["g","fail","caller",{"code":"fixBad"},2,"fixBad",false,true]'
	fsn detach g
}

@test "times: the wall clock's and CLOCK_MONOTONIC's" {
	attach_fix fix_sleep_us
	local before after mono
	before=$(date +%s%N)
	mono=$(awk '{ printf "%.0f", $1 * 1e9 }' /proc/uptime)
	start_stream s g --json
	capture "$FIX/call" --arg 50000 sleep_us 1
	after=$(date +%s%N)
	stop_stream s
	local at
	at=$(date -d "$(jq -r .time <<<"$output")" +%s%N)
	assert_between "$at" "$before" "$after"
	assert_between "$(jq .duration_ns <<<"$output")" 50000000 $((after - at))
	# /proc/uptime has hundredths; it counts suspend, as the other does not.
	assert_between "$(jq .ts_ns <<<"$output")" $((mono - 20000000)) $((mono + after - before + 20000000))
	fsn detach g
}

# --- text ---------------------------------------------------------------------------------

@test "text: a line a call, its columns aligned" {
	attach_typed --slow sleep=1ms
	start_stream s g
	capture "$FIX/call" --comm a add 1
	capture "$FIX/call" --comm abcdefghijklmno --arg 2 fail 1
	capture "$FIX/call" --comm b --arg 4000 sleep_us 1
	capture "$FIX/call" --comm b --arg 'it "is" \ me' str 1
	stop_stream s
	assert_eq "${lines[0]}" "TIME            COMMAND PID/TID CALL"
	local time='[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{6}'
	assert_output_match "^$time a       [0-9]+/[0-9]+ add\\(a=1, b=0\\) = 1 <~?[0-9.]+ [mnu]?s>$"
	assert_output_match "^$time abcdefghijklmno [0-9]+/[0-9]+ fail\\(code=fixBad\\) = 2 fixBad <~?[0-9.]+ [mnu]?s> FAILED$"
	assert_output_match "^$time b               [0-9]+/[0-9]+ sleep\\(us=4000\\) = 0 <[0-9.]+ ms> SLOW$"
	assert_output_match "^$time b               [0-9]+/[0-9]+ text\\(text=\"it \\\\\"is\\\\\" \\\\\\\\ me\"\\) = 12 <~?[0-9.]+ [mnu]?s>$"
	assert_eq "${#lines[@]}" 5
	fsn detach g
}

@test "text: slow and failed calls are coloured, on a terminal only" {
	need_terminal
	attach_typed --slow sleep=1ms
	local esc=$'\e'
	start_bg s env TERM=xterm script -qec "'$FUNCSNOOP' stream g -n 4" /dev/null
	start_bg p env TERM=xterm script -qec "'$FUNCSNOOP' stream g -n 4 --color never" /dev/null
	start_stream f g
	start_stream c g --color always
	poll_until grep -q watching "$(bg_out s)"
	poll_until grep -q watching "$(bg_out p)"
	capture "$FIX/call" --arg 0,2 fail 3
	capture "$FIX/call" --arg 4000 sleep_us 1
	wait_bg s
	assert_output_match "${esc}\[31mfail\(code=fixBad\) = 2 fixBad <[^>]*> FAILED${esc}\[0m"
	assert_output_match "${esc}\[33msleep\(us=4000\) = 0 <[^>]*> SLOW${esc}\[0m"
	assert_eq "$(grep -c "$esc\[3" <<<"$output")" 2
	wait_bg p
	refute_output_match "$esc"
	assert_eq "$(grep -c FAILED <<<"$output")" 1
	stop_stream f
	refute_output_match "$esc"
	assert_eq "$(grep -c SLOW <<<"$output")" 1
	stop_stream c
	assert_eq "$(grep -c "$esc\[3" <<<"$output")" 2
	fsn detach g
}

# --- escapes ------------------------------------------------------------------------------

@test "stream: control characters and invalid UTF-8 are escaped in every format" {
	attach_typed --slow 0ns
	local nasty=$'\e[2J"\\\n\xff\xc2\x9b\xe2\x82'
	start_stream t g
	start_stream j g --json
	start_stream c g --format chrome
	capture "$FIX/call" --comm "$nasty" --arg "$nasty" str 1
	stop_stream t
	assert_eq "$(LC_ALL=C tr -d '\n -~' <<<"$output" | wc -c)" 0 "bytes that are not ASCII"
	assert_eq "${#lines[@]}" 2
	assert_output_match ' \\x1b\[2J"\\\\x0a\\xff\\xc2\\x9b\\xe2\\x82 '
	assert_output_match '\(text="\\x1b\[2J\\"\\\\\\x0a\\xff\\xc2\\x9b\\xe2\\x82"\)'
	stop_stream j
	assert_eq "$(grep -c . <<<"$output")" 1
	assert_eq "$(grep -cP '[\x00-\x1f\x7f]' <<<"$output")" 0
	assert_eq "$(jq -r '.comm == .args.text' <<<"$output")" true
	assert_eq "$(jq -c '.comm | explode' <<<"$output")" \
		'[27,91,50,74,34,92,10,92,120,102,102,155,92,120,101,50,92,120,56,50]'
	stop_stream c
	assert_eq "$(jq -c '.[] | select(.ph == "X") | .args.args.text | explode' <<<"$output")" \
		'[27,91,50,74,34,92,10,92,120,102,102,155,92,120,101,50,92,120,56,50]'
	assert_eq "$(jq -c '.[] | select(.name == "thread_name") | .args.name | explode' <<<"$output")" \
		'[27,91,50,74,34,92,10,92,120,102,102,155,92,120,101,50,92,120,56,50]'
	fsn detach g
}

# --- chrome -------------------------------------------------------------------------------

# Prints events of $output that are neither in an open event of their thread nor after it. jq's
# numbers keep microseconds since the epoch to a quarter of one.
assert_nested() {
	assert_eq "$(jq -c '[.[] | select(.ph == "X")] | group_by(.tid) | map(
		sort_by(.ts, -.dur) | reduce .[] as $e ({ open: [], bad: 0 };
			.open |= map(select(.end > $e.ts)) |
			if (.open | length) > 0 and .open[-1].end < $e.ts + $e.dur - 1
			then .bad += 1 else . end |
			.open += [{ end: ($e.ts + $e.dur) }]) | .bad) | add' <<<"$output")" 0 "not nested"
}

@test "chrome: a trace with names of processes and threads, in which calls nest" {
	attach_fix fix_nested fix_add
	start_stream s g --format chrome
	capture "$FIX/call" --comm caller --threads 3 --procs 2 --arg 4 nested 10
	local pids
	pids=$(sed -n 's/^child //p' <<<"$output" | sort)
	stop_stream s
	assert_eq "$(jq -r '.[] | select(.ph == "X").name' <<<"$output" | sort | uniq -c | tr -s ' ')" \
		" 240 fix_add
 60 fix_nested"
	assert_nested
	assert_eq "$(jq -c '[.[] | select(.name == "fix_nested")] | length as $n |
		(map([.pid, .tid, .cat] | tojson) | unique | length)' <<<"$output")" 6
	assert_eq "$(jq -c '.[] | select(.ph == "X") | keys_unsorted' <<<"$output" | sort -u)" \
		'["ph","name","cat","pid","tid","ts","dur","args"]'
	assert_eq "$(jq '.[] | select(.name == "process_name" and .pid != 0).pid' <<<"$output" | sort)" "$pids"
	assert_eq "$(jq '.[] | select(.name == "thread_name").tid' <<<"$output" | sort)" \
		"$(jq '.[] | select(.ph == "X").tid' <<<"$output" | sort -u)"
	assert_eq "$(jq -r '.[] | select(.name == "thread_name").args.name' <<<"$output" | sort -u)" caller
	fsn detach g
}

# The latter waits for the former; it ends with it but for the overhead of probes.
@test "chrome: calls nest although their durations lack the overhead of probes" {
	local own=$BATS_TEST_TMPDIR/own-contend

	cp "$FIX/contend" "$own"
	fsn attach g s:futex:wait "$own:lock_want" --if comm==wanter
	start_stream s g --format chrome
	capture "$own" 20
	stop_stream s
	# in the order of their ends, so an outer call comes after those inside
	assert_json '[.[] | select(.ph == "X")] | group_by(.tid) | map(reduce .[] as $e (
		{ last: null, bad: 0, inner: 0 }; if $e.name == "futex:wait" then .last = $e else
			.inner += (.last != null and .last.ts >= $e.ts | if . then 1 else 0 end) |
			.bad += (.last != null and .last.ts >= $e.ts and
				.last.ts + .last.dur > $e.ts + $e.dur + 1 | if . then 1 else 0 end)
		end)) | [(map(.inner) | add), (map(.bad) | add)]' '[120,0]'
	fsn detach g
}

@test "chrome: times are those of the wall clock, in microseconds since the epoch" {
	local before after

	attach_fix fix_add
	start_stream s g --format chrome
	before=$(date +%s%6N)
	capture "$FIX/call" add 3
	after=$(date +%s%6N)
	stop_stream s
	assert_eq "$(jq -c --argjson from $((before - 20000)) --argjson to $((after + 20000)) \
		'[.[] | select(.ph == "X").ts | . >= $from and . <= $to]' <<<"$output")" \
		'[true,true,true]'
	fsn detach g
}

@test "stream: a slow call has the same local time as in stats --slow" {
	local stream stats

	need_bpf
	export TZ=Asia/Kathmandu
	fsn attach g fix_sleep_us --lib "$FIX/libfix.so.1" --slow 1ms
	start_stream s g --slow
	capture "$FIX/call" --arg 2000 sleep_us 1
	fsn stats g --slow
	stats=$(grep -oE '[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}' <<<"$output")
	stop_stream s
	stream=$(grep -oE '^[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}' <<<"$output")
	assert_between $(($(date -d "1970-01-01 $stats" +%s%6N) - $(date -d "1970-01-01 $stream" +%s%6N))) \
		-20000 20000 "$stats and $stream"
	fsn stats g --slow --json
	assert_json '.[0].slow_calls[0].time | test("^[-0-9]+T[:0-9]+\\.[0-9]+Z$")' true
	assert_between $(($(date -d "$(jq -r '.[0].slow_calls[0].time' <<<"$output")" +%s%6N) -
		$(date -d "$(date +%F) $stats" +%s%6N))) -20000 20000 "UTC in JSON"
	fsn detach g
}

@test "chrome: failed and slow calls have a category and colour; threads are renamed" {
	attach_typed --slow sleep=1ms
	start_stream s g --format chrome
	capture "$FIX/call" --arg 0,2 fail 2
	capture "$FIX/call" --arg 4000 sleep_us 1
	stop_stream s
	assert_eq "$(jq -c '.[] | select(.ph == "X") | [.name, .cat, .cname, .args.ret_name]' <<<"$output")" \
		'["fail","g",null,"fixOk"]
["fail","g,failed","terrible","fixBad"]
["sleep","g,slow","bad",null]'
	fsn detach g
}

@test "chrome: the file is valid at any moment, also if the stream is killed" {
	attach_fix fix_add
	local sig
	for sig in INT TERM KILL; do
		start_stream s g --format chrome -o "$OUT"
		assert_eq "$(jq -c 'map(.ph)' "$OUT")" '["M"]' "empty"
		capture "$FIX/call" add 20
		poll_until eval '[[ $(grep -c fix_add "$OUT") == 20 ]]'
		assert_eq "$(jq -r '.[].ph' "$OUT" | grep -c X)" 20
		capture "$FIX/call" add 20
		poll_until eval '[[ $(grep -c fix_add "$OUT") == 40 ]]'
		stop_bg "-$sig" s
		assert_eq "$(jq -r '.[].ph' "$OUT" | grep -c X)" 40 "after $sig"
	done
	start_stream s g --format chrome -o "$OUT"
	stop_bg -KILL s
	assert_eq "$(jq -c 'map(.ph)' "$OUT")" '["M"]' "empty, killed"
	fsn detach g
}

@test "chrome: a pipe gets a complete trace, also an empty one" {
	attach_fix fix_add
	start_stream s g --format chrome
	start_bg t bash -c '"$0" stream g --format chrome | cat' "$FUNCSNOOP"
	stop_stream s
	assert_eq "$(json -c 'map(.args.name)')" '["funcsnoop"]'
	poll_until grep -q watching "$(bg_err t)"
	capture "$FIX/call" add 3
	fsn detach g
	wait_bg t
	assert_eq "$(jq -c 'map(.name)' <<<"$output")" \
		'["funcsnoop","process_name","thread_name","fix_add","fix_add","fix_add"]' ||
		assert_eq "$(jq -c 'map(.name)' <<<"$output")" \
			'["process_name","process_name","thread_name","fix_add","fix_add","fix_add"]'
}

@test "chrome: a killed stream leaves only complete lines in the trace" {
	attach_fix fix_add
	start_stream s g --format chrome
	capture "$FIX/call" add 40
	poll_until eval '[[ $(grep -c fix_add "$(bg_out s)") == 40 ]]'
	stop_bg -KILL s
	assert_eq "$(tail -c 1 "$(bg_out s)" | od -An -c | tr -d ' ')" '\n'
	assert_eq "$(grep -vcE '^\[$|^,?\{.*\}$' "$(bg_out s)")" 0
	fsn detach g
}

# --- perfetto -----------------------------------------------------------------------------

# Prints the trace in FILE as JSON, read as Perfetto does; with "cut" it may end in a packet.
perfetto() { # FILE [cut]
	"$BATS_TEST_DIRNAME/perfetto.py" ${2:+"$2"} <"$1"
}

trace_has() { # CONDITION: of the trace in $OUT, to which a stream writes
	[[ $(perfetto "$OUT" cut | jq "$1") == true ]]
}

# Compares what two streams had of the same calls, with all their times.
assert_same_calls() { # TRACE JSON-LINES
	assert_eq "$(perfetto "$1" | jq -c '.slices[] | [.pid, .tid, .ts, .name, .dur, .cat[0],
			.args.args, .args.ret, .args.ret_name]' | sort)" \
		"$(jq -c '[.pid, .tid, .ts_ns, .function, .duration_ns, .group,
			.args, .ret, .ret_name]' "$2" | sort)"
}

@test "perfetto: a slice for each call, nested in its thread, with its arguments" {
	need_tool python3
	attach_typed --without correction
	start_stream j g --json
	start_stream p g --format perfetto -o "$OUT"
	capture "$FIX/call" --comm caller --threads 3 --procs 2 --arg 4 nested 10
	local pids
	pids=$(sed -n 's/^child //p' <<<"$output" | sort)
	capture "$FIX/call" --comm caller --arg=-7 add 3
	stop_stream p
	stop_stream j
	assert_same_calls "$OUT" "$(bg_out j)"
	output=$(perfetto "$OUT")
	assert_json '[.slices[] | "\(.parent) > \(.name)"] | group_by(.) | map("\(length) \(.[0])") | join(", ")' \
		"240 nested > add, 3 null > add, 60 null > nested"
	assert_json '[.slices[] | select(.args.args.a == -7)] | length' 3
	assert_json '[.tracks[] | select(.thread).thread | select(.name == "caller").tid] | length' 7
	assert_json '[.slices[].tid] - [.tracks[] | select(.thread).thread.tid] | length' 0
	assert_eq "$(jq '.tracks[] | select(.process).process.pid' <<<"$output" | sort | head -n 2)" \
		"$(head -n 2 <<<"$pids")"
	fsn detach g
}

@test "perfetto: calls nest although their durations lack the overhead of probes" {
	need_tool python3
	local own=$BATS_TEST_TMPDIR/own-contend

	cp "$FIX/contend" "$own"
	fsn attach g s:futex:wait "$own:lock_want" --if comm==wanter
	start_stream p g --format perfetto -o "$OUT"
	capture "$own" 20
	stop_stream p
	output=$(perfetto "$OUT")
	assert_json '[.slices[] | select(.name == "lock_want") | .tid] | [length, (unique | length)]' '[120,1]'
	assert_json '(first(.slices[] | select(.name == "lock_want").tid)) as $tid | [.slices[]
		| select(.tid == $tid and .name == "futex:wait").parent] | [length, unique]' '[120,["lock_want"]]'
	fsn detach g
}

@test "perfetto: times are those of CLOCK_MONOTONIC, with those of the other clocks" {
	need_tool python3
	attach_fix fix_add
	start_stream j g --json
	start_stream p g --format perfetto -o "$OUT"
	capture "$FIX/call" add 1
	stop_stream p
	stop_stream j
	output=$(perfetto "$OUT")
	local wall
	wall=$(date -d "$(jq -r .time "$(bg_out j)")" +%s%N)
	assert_between $((wall - $(jq '.slices[0].ts' <<<"$output") -
		$(jq '.clocks["1"] - .clocks["3"]' <<<"$output"))) -20000000 20000000
	# /proc/uptime is CLOCK_BOOTTIME, in hundredths.
	assert_between "$(jq '.clocks["6"]' <<<"$output")" 1 \
		$(($(awk '{ printf "%.0f", $1 * 1e9 }' /proc/uptime) + 20000000))
	fsn detach g
}

@test "perfetto: any text, slow and failed calls, calls without a duration" {
	need_tool python3
	local nasty=$'\e[2J"\\\n\xff\xc2\x9b\xe2\x82' want='[27,91,50,74,34,92,10,92,120,102,102,155,92,120,101,50,92,120,56,50]'
	attach_typed --slow sleep=1ms
	fsn attach h eng_jump_reg --lib "$FIX/libengine.so" --exit ret
	start_stream p g h --format perfetto -o "$OUT"
	capture "$FIX/call" --comm "$nasty" --arg "$nasty" str 1
	capture "$FIX/call" --arg 0,2 fail 2
	capture "$FIX/call" --arg 4000 sleep_us 1
	capture "$FIX/engine" jumps 1
	stop_stream p
	output=$(perfetto "$OUT")
	assert_json '[.slices[] | select(.name == "text").args.args.text | explode] | tostring' "[$want]"
	assert_json '.tracks[] | select(.thread).thread.name | explode | select(.[0] == 27) | tostring' "$want"
	assert_json '[.slices[1:][] | [.name, .cat, .args.ret_name]] | tostring' \
		'[["fail",["g"],"fixOk"],["fail",["g","failed"],"fixBad"],["sleep",["g","slow"],null]]'
	assert_json '[.instants[].name] | tostring' '["eng_jump_reg"]'
	fsn detach g
	fsn detach h
}

@test "perfetto: calls that overlap without nesting have tracks of their own" {
	need_tool python3
	attach_fix fix_add
	fsn attach h fix_add --lib "$LIB" --exit return
	start_stream j g h --json
	start_stream p g h --format perfetto -o "$OUT"
	capture "$FIX/call" --comm caller add 100
	stop_stream p
	stop_stream j
	assert_same_calls "$OUT" "$(bg_out j)"
	assert_eq "$(perfetto "$OUT" | jq '.slices | length')" 200
	fsn detach g
	fsn detach h
}

@test "perfetto: the file is valid at any moment; lost calls and gaps are in it" {
	need_tool python3 bpftool
	attach_fix fix_add
	start_stream p g --format perfetto -o "$OUT" --buffer 4K
	assert_eq "$(perfetto "$OUT" | jq -r '.tracks[].name')" funcsnoop
	kill -STOP "$(bg_pid p)"
	capture "$FIX/call" add 400
	kill -CONT "$(bg_pid p)"
	poll_until trace_has '.slices | length >= 10'
	capture "$FIX/call" add 3
	poll_until trace_has '(.slices | length) + ([.instants[].args.count] | add) == 403'
	kill -STOP "$(bg_pid p)"
	poll_until lease_ended g
	kill -CONT "$(bg_pid p)"
	poll_until trace_has '.slices[-1].name == "nothing recorded: funcsnoop was stopped"'
	stop_bg -KILL p
	output=$(perfetto "$OUT")
	assert_json '.slices[-1] | .dur > 0' true
	assert_json '[.instants[].name, .instants[].args.group, .slices[-1].args.group] | join(" ")' "calls lost g g"
	fsn detach g
}

@test "perfetto: a pipe gets whole packets; a terminal gets none" {
	need_tool python3
	need_terminal
	attach_fix fix_add
	start_bg s bash -c 'exec "$0" stream g --format perfetto | cat >"$1"' "$FUNCSNOOP" "$OUT"
	start_bg t bash -c 'exec "$0" stream g --format perfetto | head -c 5000 >/dev/null' "$FUNCSNOOP"
	poll_until watches s
	poll_until watches t
	capture "$FIX/call" add 1000
	fsn detach g
	wait_bg s
	wait_bg t
	assert_eq "$(perfetto "$OUT" | jq '.slices | length')" 1000
	capture -s 2 script -qec "'$FUNCSNOOP' stream --format perfetto" /dev/null
	assert_output_match '--format perfetto is nothing for a terminal: --output'
}

# Calls, from the rates of a counter: each holds until the next one.
counted() { # NAME
	perfetto "$OUT" cut | jq --arg name "$1" '.counters[$name] // []
		| [range(1; length) as $i | .[$i - 1][1] * (.[$i][0] - .[$i - 1][0]) / 1e9] | add // 0 | round'
}

rests_at() { # CALLS
	trace_has '.counters["g: add calls_per_s"][-1][1] == 0' && [[ $(counted "g: add calls_per_s") == "$1" ]]
}

@test "perfetto: counters of calls are those of stats, also of calls that are not in the trace" {
	need_tool python3
	attach_typed
	start_stream p g --format perfetto -o "$OUT" --only slow -f add -f fail
	capture "$FIX/call" --arg 4 nested 500
	capture "$FIX/call" --arg 2 fail 1
	poll_until rests_at 2000
	fsn stats g --reset --json
	assert_json '.[0].functions[] | select(.name == "add").calls' 2000
	capture "$FIX/call" add 300
	poll_until rests_at 2300
	stop_stream p
	assert_eq "$(counted "g: fail calls_per_s")" 1
	output=$(perfetto "$OUT")
	assert_json '[(.slices | length), [.tracks[] | select(.counter.unit_name) | .name, .counter.unit_name]]' \
		'[0,["g: add calls_per_s","calls/s","g: fail calls_per_s","calls/s"]]'
	fsn detach g
}

@test "perfetto: counters of calls in progress and live memory have the values of the moment" {
	need_tool python3
	cat >"$BATS_TEST_TMPDIR/heap.json" <<-'END'
	{ "heap_sym": { "heap_malloc": { "ret": "void *", "args": ["size_t size"],
		"allocates": { "pointer": "result", "size": "size" } } } }
	END
	fsn attach g fix_hang --lib "$LIB"
	fsn attach --config "$BATS_TEST_TMPDIR/heap.json" heap --lib "$FIX/heap" --memory
	start_bg c "$FIX/call" --threads 3 hang 1
	wait_line c "^blocked "
	start_stream p --format perfetto -o "$OUT"
	start_bg heap "$FIX/heap" --wait leak 9
	wait_ready heap
	tell heap
	tell heap
	poll_until trace_has '.counters["heap: heap_malloc live_bytes"][-1][1] == 1024'
	tell heap
	poll_until trace_has '.counters["heap: heap_malloc live_bytes"][-1][1] == 2048'
	kill -KILL "$(bg_pid c)"
	stop_bg -KILL c
	poll_until trace_has '.counters["g: fix_hang in_flight"][-1][1] == 0'
	stop_stream p
	output=$(perfetto "$OUT")
	assert_json '.counters["g: fix_hang in_flight"] | [first[1], last[1]]' '[3,0]'
	assert_json '.counters["heap: heap_malloc live_bytes"] | map(.[1])' '[1024,2048]'
	assert_json '[.tracks[] | select(.counter) | [.name, .counter.unit]] | unique' \
		'[["g: fix_hang in_flight",2],["heap: heap_malloc calls_per_s",null],["heap: heap_malloc live_bytes",3]]'
	stop_bg -KILL heap
	fsn detach g heap
}

# --- files --------------------------------------------------------------------------------

@test "-o: for its owner alone; a file that is there is replaced when the stream begins" {
	attach_fix fix_add
	umask 000
	start_stream s g --json -o "$OUT"
	assert_eq "$(stat -c %a "$OUT")" 600
	capture "$FIX/call" add 10
	stop_stream s
	assert_eq "$output" ""
	assert_eq "$(jq -s length "$OUT")" 10
	fsn -s 1 stream nosuch -o "$OUT"
	fsn -s 1 stream g -f nosuch -o "$OUT"
	assert_eq "$(jq -s length "$OUT")" 10
	start_stream s g --json -o "$OUT"
	assert_eq "$(stat -c %s "$OUT")" 0
	stop_stream s
	fsn -s 1 stream nosuch -o "$OUT.new"
	[[ ! -e $OUT.new ]] || fail "a file is left of a stream that never began"
	fsn -s 1 stream g -o "$BATS_TEST_TMPDIR"
	assert_stderr "funcsnoop stream: cannot open '$BATS_TEST_TMPDIR': Is a directory"
	fsn -s 1 stream g -o "$BATS_TEST_TMPDIR/none/x"
	assert_stderr "funcsnoop stream: cannot open '$BATS_TEST_TMPDIR/none/x': No such file or directory"
	fsn detach g
}

@test "-o: a named pipe that waits for its reader does not block other commands" {
	attach_fix fix_add
	mkfifo "$OUT"
	start_bg s "$FUNCSNOOP" stream g -o "$OUT" --json
	poll_until grep -qE "wait_for_partner|fifo_open" "/proc/$(bg_pid s)/wchan" || poll_until -t 1 bg_ended s || true
	fsn reset g
	start_bg reader cat "$OUT"
	poll_until grep -q watching "$(bg_err s)"
	capture "$FIX/call" add 3
	stop_bg -INT s
	assert_eq "$status" 0
	wait_bg reader
	assert_eq "$(jq -s length <<<"$output")" 3
	start_bg s "$FUNCSNOOP" stream g -o "$OUT" --json
	poll_until grep -qE "wait_for_partner|fifo_open" "/proc/$(bg_pid s)/wchan" || true
	stop_bg -INT s
	assert_eq "$status" 0 "Ctrl-C while it waits for a reader"
	fsn detach g
}

@test "stream: appends to a standard output that others also write" {
	attach_fix fix_add
	echo before >"$OUT"
	start_bg s bash -c '"$0" stream g --format chrome -n 2 >>"$1"; echo after >>"$1"' "$FUNCSNOOP" "$OUT"
	start_bg t bash -c '{ echo before; "$0" stream g --format chrome -n 2; echo after; } >"$1"' "$FUNCSNOOP" "$OUT.t"
	poll_until grep -q watching "$(bg_err s)"
	poll_until grep -q watching "$(bg_err t)"
	capture "$FIX/call" add 2
	wait_bg s
	wait_bg t
	local f
	for f in "$OUT" "$OUT.t"; do
		assert_eq "$(sed -n '1p;$p' "$f" | paste -sd,)" before,after
		assert_eq "$(sed '1d;$d' "$f" | jq -r '.[].ph' | grep -c X)" 2
	done
	fsn detach g
}

@test "stream: a file shared by two streams and other writers has every line" {
	attach_fix fix_add
	: >"$OUT"
	# Their standard errors are the file, too, and so is what the shell says meanwhile.
	start_bg s bash -c 'exec >"$1" 2>&1
		"$0" stream g --json -n 720 & "$0" stream g -n 720 &
		for _ in {1..9}; do read -r line; echo "said $line"; done
		wait' "$FUNCSNOOP" "$OUT"
	poll_until eval '[[ $(grep -c watching "$OUT") == 2 ]]'
	local i
	for i in {1..9}; do
		capture "$FIX/call" --comm caller add 80
		tell s "$i"
		poll_until eval 'grep -q "^said $i" "$OUT"'
	done
	wait_bg s
	assert_eq "$(tr -dc '\0' <"$OUT" | wc -c)" 0 "holes"
	assert_eq "$(grep -c watching "$OUT")" 2 "notes"
	assert_eq "$(grep -c '^said [1-9]$' "$OUT")" 9 "lines of others"
	assert_eq "$(grep '^{"type"' "$OUT" | jq -c .type | sort | uniq -c | tr -s ' ')" ' 720 "call"'
	assert_eq "$(grep -cE '^[0-9:.]+ caller +[0-9]+/[0-9]+ fix_add\(.*\) = .*>$' "$OUT")" 720 "lines of text"
	fsn detach g
}

@test "-o: a file that others write to or empty gets its lines at the end" {
	attach_fix fix_add
	start_stream s g --json -o "$OUT"
	capture "$FIX/call" add 3
	poll_until eval '[[ $(grep -c fix_add "$OUT") == 3 ]]'
	echo '"theirs"' >>"$OUT"
	capture "$FIX/call" add 3
	poll_until eval '[[ $(grep -c fix_add "$OUT") == 6 ]]'
	assert_eq "$(jq -r '.function? // .' "$OUT" | uniq -c | tr -s ' ' | paste -sd,)" \
		" 3 fix_add, 1 theirs, 3 fix_add"
	: >"$OUT"
	capture "$FIX/call" add 2
	stop_stream s
	assert_eq "$(jq -s length "$OUT")" 2
	fsn detach g
}

# --- ends ---------------------------------------------------------------------------------

@test "stream: stops with status 0 and no message when its reader exits" {
	attach_fix fix_add
	local format
	for format in text json chrome; do
		start_bg s bash -c 'set -o pipefail; "$0" stream g --format "$1" | head -n 3' "$FUNCSNOOP" "$format"
		poll_until watches s
		capture "$FIX/call" add 100
		poll_until has_lines s 3
		capture "$FIX/call" add 100
		wait_bg s
		assert_eq "${#lines[@]}" 3
		assert_stderr "funcsnoop stream: watching 1 function of 1 group"
		assert_free g
	done
	fsn detach g
}

@test "stream: INT, TERM and HUP end it with whole lines and status 0" {
	attach_fix fix_add
	start_bg c "$FIX/call" --threads 2 --until-line add
	local sig
	for sig in INT TERM HUP; do
		start_stream s g --json
		poll_until has_lines s 100
		stop_bg "-$sig" s
		assert_eq "$status" 0 "after $sig"
		jq -e .ts_ns <"$(bg_out s)" >/dev/null
		assert_free g
	done
	tell c
	wait_bg c
	fsn detach g
}

@test "nohup: HUP does not end it" {
	attach_fix fix_add
	start_stream s g --json
	start_bg n nohup "$FUNCSNOOP" stream g --json
	poll_until grep -q watching "$(bg_err n)"
	kill -HUP "$(bg_pid n)" "$(bg_pid s)"
	wait_bg s
	capture "$FIX/call" add 3
	stop_stream n
	assert_events "call fix_add 3"
	fsn detach g
}

@test "stream: Ctrl-C ends it soon although its output is never read" {
	attach_fix fix_add
	mkfifo "$OUT"
	exec 8<>"$OUT"
	start_stream s g --json -o "$OUT" 8>&-
	capture "$FIX/call" add 2000
	poll_until eval 'grep -q pipe_write "/proc/$(bg_pid s)/wchan"'
	local begin=${EPOCHREALTIME/./}
	stop_bg -INT s
	assert_eq "$status" 0
	assert_between $(((${EPOCHREALTIME/./} - begin) / 1000)) 0 3000
	assert_free g
	exec 8>&-
	fsn detach g
}

@test "stream: a non-blocking pipe gets every line" {
	attach_fix fix_add
	start_bg s bash -c 'set -o pipefail; "$1" nonblock "$0" stream g --json | (sleep 1; cat)' \
		"$FUNCSNOOP" "$FIX/surround"
	poll_until watches s
	capture "$FIX/call" add 1000
	fsn detach g
	wait_bg s
	assert_events "call fix_add 1000"
}

@test "stream: a full disk is an error after whole lines, and nothing is left" {
	attach_fix fix_add
	mkdir "$BATS_TEST_TMPDIR/small"
	mount -t tmpfs -o size=64k t "$BATS_TEST_TMPDIR/small"
	local small=$BATS_TEST_TMPDIR/small/out
	start_stream j g --json -o "$small"
	capture "$FIX/call" add 100
	poll_until grep -q fix_add "$small"
	capture "$FIX/call" add 1000
	wait_bg -s 1 j
	assert_stderr_match "^funcsnoop stream: cannot write '$small': No space left on device$"
	assert_json .error "cannot write '$small': No space left on device"
	assert_between "$(jq -s length "$small")" 100 300
	assert_free g
	rm "$small"
	start_stream c g --format chrome -o "$small"
	capture "$FIX/call" add 100
	poll_until grep -q fix_add "$small"
	capture "$FIX/call" add 1000
	wait_bg -s 1 c
	assert_between "$(jq length "$small")" 100 300
	rm "$small"
	start_stream p g --format perfetto -o "$small"
	capture "$FIX/call" add 100
	poll_until grep -q fix_add "$small"
	capture "$FIX/call" add 1000
	wait_bg -s 1 p
	assert_between "$(perfetto "$small" | jq '.slices | length')" 100 400
	rm "$small"
	start_bg a bash -c '"$0" stream g --json >>"$1"' "$FUNCSNOOP" "$small"
	poll_until grep -q watching "$(bg_err a)"
	capture "$FIX/call" add 1000
	wait_bg -s 1 a
	assert_between "$(jq -s length "$small")" 100 300
	head -c 1000000 /dev/zero >"$small" 2>/dev/null || true
	fsn -s 1 stream g --format chrome -o "$small.full"
	assert_eq "$(stat -c %s "$small.full")" 0
	assert_free g
	umount "$BATS_TEST_TMPDIR/small"
	start_bg f bash -c 'exec "$0" stream g --json >/dev/full' "$FUNCSNOOP"
	poll_until watches f
	capture "$FIX/call" add 1
	wait_bg -s 1 f
	assert_stderr_match "^funcsnoop stream: cannot write 'output': No space left on device$"
	assert_free g
	fsn detach g
}

@test "stream: ends if its terminal is closed, and leaves nothing" {
	need_terminal
	attach_fix fix_add
	start_bg c "$FIX/call" --until-line add
	start_bg t script -qec "echo \$\$ >'$OUT'; exec '$FUNCSNOOP' stream g" /dev/null
	poll_until grep -q fix_add "$(bg_out t)"
	stop_bg -KILL t
	poll_until eval '[[ ! -e /proc/$(<"$OUT") ]]'
	assert_free g
	tell c
	wait_bg c
	fsn detach g
}

@test "progress: on a terminal's stderr, when the calls go to a file" {
	need_terminal
	attach_fix fix_add
	start_bg t script -qec "'$FUNCSNOOP' stream g --json -o '$OUT' -d 2" /dev/null
	poll_until grep -q watching "$(bg_out t)"
	capture "$FIX/call" add 12
	wait_bg t
	assert_output_match $'\r\e\[K12 calls, [0-9]+/s, 0 lost, [0-9.]+ [KkMi]*B written; Ctrl-C ends'
	assert_eq "$(jq -s length "$OUT")" 12
	fsn -q stream g -o "$OUT" -d 0.7
	assert_stderr ""
	capture script -qec "'$FUNCSNOOP' -q stream g -o '$OUT' -d 0.7" /dev/null
	assert_eq "$output" ""
	fsn detach g
}

# --- syslog -------------------------------------------------------------------------------

@test "--alert: slow calls go to syslog, as warnings, escaped" {
	attach_typed --slow sleep=1ms
	local dev=$BATS_TEST_TMPDIR/dev
	mkdir "$dev"
	start_bg log "$FIX/surround" log "$dev/log"
	wait_ready log
	# shellcheck disable=SC2016
	start_bg s unshare --mount --propagation private bash -c '
		touch "$0/null" && mount --bind /dev/null "$0/null" && mount --rbind "$0" /dev &&
			exec "$@"' "$dev" "$FUNCSNOOP" stream g --alert --json
	poll_until grep -q watching "$(bg_err s)"
	capture "$FIX/call" --comm $'x\n\e%s' --arg 4000 sleep_us 2
	capture "$FIX/call" --arg 2 fail 4
	poll_until has_lines log 3
	stop_stream s
	assert_eq "$(grep -c . <<<"$output")" 6
	stop_bg log
	assert_eq "$(sed 1d <<<"$output" | sed -E 's/^<28>.{15} funcsnoop\[[0-9]+\]: //; s/[0-9]+\/[0-9]+/P/; s/<[0-9.]+ ms>/<T>/' | sort | uniq -c | tr -s ' ')" \
		' 2 x\x0a\x1b%s[P] sleep(us=4000) = 0 <T> SLOW'
	fsn detach g
}

# --- time ---------------------------------------------------------------------------------

@test "stream: a call is printed within a tenth of a second" {
	attach_fix fix_sleep_us
	mkfifo "$OUT"
	# shellcheck disable=SC2016
	start_bg r bash -c 'while read -r line; do echo "$EPOCHREALTIME $line"; done <"$0"' "$OUT"
	start_stream s g --json -o "$OUT"
	capture "$FIX/call" --arg 47000 sleep_us 31
	stop_stream s
	wait_bg r
	local median
	# The median of many calls, because the machine may be busy for a while.
	median=$(sed 's/ /\n/' <<<"$output" | jq -s '[range(0; length; 2) as $i | .[$i + 1] as $c |
		(.[$i] * 1000) - (($c.time | sub("\\..*"; "Z") | fromdate) * 1000 +
			($c.time | capture("\\.(?<ns>[0-9]+)Z").ns | tonumber) / 1e6 +
			$c.duration_ns / 1e6)] | sort | .[length / 2 | floor] | round')
	assert_between "$median" 1 100 "ms, the median"
	fsn detach g
}

ticks() { # PID: of processor time
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

@test "stream: an idle stream uses almost no CPU time" {
	attach_fix fix_add
	start_stream s g --json
	local before
	before=$(ticks "$(bg_pid s)")
	sleep 2
	assert_between $(($(ticks "$(bg_pid s)") - before)) 0 $(($(getconf CLK_TCK) * 2 * 3 / 100))
	stop_stream s
	fsn detach g
}

# --- wrong usage ----------------------------------------------------------------------------

refused() { # MESSAGE ARG...: wrong usage
	fsn -s 2 --json stream g "${@:2}"
	assert_stderr "funcsnoop stream: $1
hint: 'funcsnoop help stream' shows the usage"
	assert_json .error "$1"
}

@test "stream: invalid values and conflicting options are wrong usage" {
	need_tool jq
	local i many=()
	refused "--only is slow, failed, a duration such as 5ms, or 1/N, not 'x'" --min x
	refused "--number '0' is not a number from 1 to 9223372036854775807" -n 0
	refused "--number '-1' is not a number from 1 to 9223372036854775807" -n -1
	refused "--duration 'x' is not a number of seconds" -d x
	refused "--pid '0' is not a number from 1 to 2147483647" -p 0
	refused "--pid '1x' is not a number from 1 to 2147483647" -p 1x
	refused "--sample '0' is not a number from 1 to 4294967295" --sample 0
	refused "--events is call, entry, exit or all, not 'x'" --events x
	refused "--format is text, json, chrome or perfetto, not 'x'" --format x
	refused "--limit buffer '4095' is not a size from 4K to 1G" --buffer 4095
	refused "--limit buffer '2G' is not a size from 4K to 1G" --buffer 2G
	refused "--limit buffer '4KB' is not a size from 4K to 1G" --buffer 4KB
	for i in {1..17}; do
		many+=(-p "$i")
	done
	refused "at most 16 processes can be chosen" "${many[@]}"
	refused "nothing is known of the call at its entry: no --only slow, failed or DUR" --events entry --slow
	refused "nothing is known of the call at its entry: no --only slow, failed or DUR" --events all --min 1ms
	refused "--only 1/N would choose other entries than calls: not with --events all" --events all --sample 2
	refused "--alert is about calls: not with --events entry or exit" --alert --events exit
	fsn -s 2 stream g --format chrome --events entry
	assert_stderr "funcsnoop stream: a trace is made of calls: no --events with --format chrome or perfetto
hint: 'funcsnoop help stream' shows the usage"
	fsn -s 2 stream g --json --format chrome
	assert_json .error "--json and another --format exclude each other"
}

@test "stream: a missing group or function is an error with a hint" {
	need_bpf
	need_tool jq
	fsn -s 1 stream
	assert_stderr "funcsnoop stream: nothing is attached
hint: 'funcsnoop help attach' shows how to attach a group"
	fsn -s 1 stream --format json
	assert_json .error "nothing is attached"
	attach_fix fix_add
	fsn -s 1 stream g nosuch
	assert_stderr "funcsnoop stream: no group 'nosuch' is attached
hint: 'funcsnoop list' shows what is attached"
	fsn -s 1 stream -f fix_add -f 'nosuch*'
	assert_stderr "funcsnoop stream: no function 'nosuch*' in group 'g'
hint: 'funcsnoop list functions g' shows them"
	capture -s 1 bash -c 'exec "$0" stream g >&-' "$FUNCSNOOP"
	assert_stderr "funcsnoop stream: cannot write 'output': Bad file descriptor"
	assert_free g
	fsn detach g
}

@test "stream: without privilege it is refused, and makes no file" {
	attach_fix fix_add
	need_tool setpriv
	mkdir -m 777 "$BATS_TEST_TMPDIR/open"
	capture -s 1 setpriv --reuid=65534 --clear-groups "$FUNCSNOOP" stream g -o "$BATS_TEST_TMPDIR/open/x"
	assert_stderr_match "Permission denied"
	[[ ! -e $BATS_TEST_TMPDIR/open/x ]] || fail "a file is left"
	fsn detach g
}

@test "stream: a note says if no slow call can be expected" {
	attach_fix fix_add
	fsn stream g --slow -d 0.1
	assert_stderr "funcsnoop stream: no call of group 'g' is slow: 'funcsnoop set g --slow DUR' sets the threshold
funcsnoop stream: watching 1 function of 1 group"
	fsn detach g
}
