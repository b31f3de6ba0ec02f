# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stats and set: the numbers, their JSON, the table, errors and slow calls.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

# fix_fail's codes have names, and 7 is not an error; fix_ptr fails with null, fix_ret if
# negative.
attach_fails() {
	cat >"$BATS_TEST_TMPDIR/fails.json" <<-END
	{ "fails_sym": {
	    "fix_fail": { "symbol": "fix_fail", "ret": "fail_t" },
	    "fix_ptr":  { "symbol": "fix_ptr", "ret": "void *", "error": "null" },
	    "fix_ret":  { "symbol": "fix_ret", "ret": "long", "error": "negative" },
	    "fix_add":  "fix_add" },
	  "types": { "fail_t": { "base": "int", "error": "nonzero", "no_error": [7],
	    "codes": { "2": "failMemory", "-1": "failOther", "7": "failNotReady" } } },
	  "lib": "$LIB" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/fails.json" --overhead none
}

# --- JSON -------------------------------------------------------------------------------

@test "stats: the JSON document has all keys in order, with their types" {
	need_bpf
	attach_fails
	capture "$FIX/call" --arg 0,2 fail 10
	fsn stats fails --json
	assert_json 'length' 1
	assert_json '.[0] | keys_unsorted' \
		'["group","attached_at","since","calls_per_s","cost_ns_per_s","cost_source","cost_ns","health","over","functions"]'
	assert_json '.[0].health | keys_unsorted' '["sampled_out","shed_calls","crowded","other_stack","too_deep","held_times","held_calls","no_slot","left_by_jump","inner","unseen","unmatched_returns","lost_codes","lost_processes","bulk_frees","lost_stacks","lost_python","lost_texts","lost_conditions","undercounted","missed","inner_launches","lost_slow","cpus_off","lost_children","held_ns","stacks"]'
	assert_json '.[0].functions[0] | keys_unsorted' '["id","name","symbol","library","calls","calls_per_s","carried","returns","in_flight","abandoned","untimed","errors","slow","total_ns","outer_ns","self_ns","on_cpu_ns","queued_ns","blocked_ns","min_ns","avg_ns","max_ns","p50_ns","p90_ns","p99_ns","p999_ns","overhead_ns","noise_ns","max_noise_ns","cost_ns","live_bytes","live_blocks","peak_bytes","freed_bytes","exit_bytes","exit_blocks","lost_blocks","unknown_frees","return_codes","histogram","processes","ended","rows","other_rows","ended_rows","blocked_in"]'
	assert_json '.[0].functions[0] | map_values(type) | [.[]] | join(" ")' "number string string string number number number number number number number number number number number number null null null number number number number number number number number number number number null null null null null null null null array array array null array null null array"
	assert_json '.[0].functions[0] | (.return_codes[0], .histogram[0], .processes[0])
		| keys_unsorted' '["code","name","count"]
["ge_ns","lt_ns","count"]
["pid","comm","cgroup","calls","returns","total_ns","self_ns","on_cpu_ns","queued_ns","blocked_ns","max_ns","errors","slow"]'
	assert_json '.[0] | [.attached_at, .since]
		| all(test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"))' true
	assert_json '.[0].health | add' 0
	fsn detach fails
}

@test "stats: times of functions without calls are null" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	fsn stats g --json
	assert_json '.[0].functions' '[]'
	fsn stats g --all --json
	assert_json '.[0].functions[0] | [.calls, .returns, .in_flight, .errors, .slow, .total_ns,
		.min_ns, .avg_ns, .max_ns, .p50_ns, .p90_ns, .p99_ns, .p999_ns, .return_codes,
		.histogram, .processes]' \
		'[0,0,0,0,0,null,null,null,null,null,null,null,null,[],[],[]]'
	fsn detach g
}

@test "stats: without groups, --json prints an empty list; otherwise a remark is printed" {
	need_bpf
	fsn stats --json
	assert_output '{"version":1,"groups":[]}'
	assert_stderr ""
	fsn stats
	assert_output ""
	assert_stderr "funcsnoop stats: nothing is attached"
	fsn stats --quiet
	assert_stderr ""
	fsn stats --pretty
	assert_json . "[]"
}

@test "stats: groups are in order of their names, or as listed on the command line" {
	need_bpf
	fsn attach b fix_add --lib "$LIB"
	fsn attach a fix_add --lib "$LIB"
	fsn stats --json
	assert_json 'map(.group)' '["a","b"]'
	fsn stats b a --json
	assert_json 'map(.group)' '["b","a"]'
	fsn stats b --json
	assert_json 'map(.group)' '["b"]'
	fsn detach a b
}

# --- times -------------------------------------------------------------------------------

# A spinning call lasts at least the requested time and less than 5 times that, plus lost CPU
# time, which hardly affects the minimum.
@test "stats: minimum, percentiles and total match known durations" {
	need_bpf
	# A call that loses its CPU may lose it in a probe: what is taken off for that is shared out, and
	# can be too much by one or two parts in a hundred here.
	fsn attach g fix_spin_ns --lib "$LIB"
	capture "$FIX/call" --arg 2000000 spin_ns 60
	capture "$FIX/call" --arg 20000000 spin_ns 40
	assert_numbers g "fix_spin_ns 100 0 100 0 0 0"
	assert_json_true '.[0].functions[0]
		| .min_ns >= 1960000 and .min_ns < 10000000
		and .p50_ns >= 2000000 * 0.9375
		and .p90_ns >= 20000000 * 0.9375 and .max_ns >= 19600000
		and .total_ns >= 60 * 1960000 + 40 * 19600000
		and .avg_ns == (.total_ns / .returns | floor)'
	# The rank is in its bucket, however long calls have waited for a CPU.
	assert_json_true '.[0].functions[0] | .p50_ns as $p | [.histogram[] | select(.lt_ns <= $p).count] as $below
		| [.histogram[] | select(.ge_ns <= $p).count] as $to | ($below | add // 0) < 50 and ($to | add) >= 50'
	# Each bucket is an eighth of an octave wide; none has a call that it cannot have.
	assert_json_true '.[0].functions[0].histogram | all(.[]; .lt_ns <= .ge_ns * 1.125)
		and (map(select(.lt_ns <= 1960000)) == [])
		and (map(select(.lt_ns > 19999000) | .count) | add) >= 40
		and (map(select(.lt_ns <= 19999000) | .count) | add) <= 60'
	fsn detach g
}

# The middle of a bucket is at most 6.25 % off; the lowest and highest are known exactly.
@test "stats: percentiles are in the buckets of the histogram" {
	local p

	need_bpf
	fsn attach g fix_spin_ns --lib "$LIB"
	capture "$FIX/call" --arg 10000,20000,40000,80000,160000,320000 spin_ns 600
	fsn stats g --json
	for p in 50:500 90:900 99:990 999:999; do
		assert_json_true ".[0].functions[0] | .p${p%:*}_ns as \$p | .max_ns as \$max
			| (.returns * ${p#*:} / 1000 | ceil) as \$nth
			| (reduce .histogram[] as \$b ([0, null];
				if .[1] == null and .[0] + \$b.count >= \$nth
				then [.[0], \$b] else [.[0] + \$b.count, .[1]] end))[1]
			| (\$p >= .ge_ns and \$p <= .lt_ns) or \$p == \$max"
	done
	fsn detach g
}

@test "stats: buckets add up to the returns, and processes to the calls" {
	need_bpf
	# Corrected sums of short calls can be negative; each of them is shown as 0.
	fsn attach g fix_add fix_ret --lib "$LIB" --raw
	capture "$FIX/call" --procs 3 --threads 4 add 50
	capture "$FIX/call" ret 50
	fsn stats g --json
	assert_json '.[0].functions | sort_by(.name) | map([.calls, ([.histogram[].count] | add),
		([.processes[].calls] | add), ([.processes[].returns] | add),
		(.processes | length), ([.processes[].total_ns] | add) == .total_ns,
		([.processes[].max_ns] | max) == .max_ns])' \
		'[[600,600,600,600,3,true,true],[50,50,50,50,1,true,true]]'
	fsn detach g
}

# --- errors ------------------------------------------------------------------------------

@test "stats: failed calls are counted by code, with its name" {
	need_bpf
	attach_fails
	capture "$FIX/call" --arg 0,2,2,-1,7,9 fail 600
	capture "$FIX/call" --arg 0,1,1 ptr 30
	capture "$FIX/call" --arg -5,0,5,-5000000000 ret 40
	capture "$FIX/call" add 10
	fsn stats fails --json
	assert_sound
	assert_json '.[0].functions | sort_by(.name)[] | [.name, .calls, .errors, .return_codes]
		| tojson' '["fix_add",10,0,[]]
["fix_fail",600,400,[{"code":-1,"name":"failOther","count":100},{"code":2,"name":"failMemory","count":200},{"code":9,"name":null,"count":100}]]
["fix_ptr",30,10,[{"code":0,"name":null,"count":10}]]
["fix_ret",40,20,[{"code":-5000000000,"name":null,"count":10},{"code":-5,"name":null,"count":10}]]'
	assert_json '.[0].functions[] | select(.name == "fix_fail").processes | map(.errors)' '[400]'
	fsn detach fails
}

# Bits that the C compiler leaves in the upper half of the register do not belong to an int.
@test "stats: a call fails or succeeds by the bits of its result's type" {
	local error want

	need_bpf
	while IFS='|' read -r error want; do
		cat >"$BATS_TEST_TMPDIR/width.json" <<-END
		{ "width_sym": { "fix_ret": { "ret": "int", $error } }, "lib": "$LIB" }
		END
		fsn attach --config "$BATS_TEST_TMPDIR/width.json"
		# -13 and 3 of 32 bits, 0 and -1 below an upper half with something in it.
		capture "$FIX/call" --arg 4294967283,3,-4294967296,8589934591 ret 40
		fsn stats width --json
		assert_json '.[0].functions[0] | [.calls, .errors,
			(.return_codes | map([.code, .count]))]' "[40,$want]"
		fsn detach width
	done <<-'END'
		"error": "negative"|20,[[-13,10],[-1,10]]
		"error": "nonzero"|30,[[-13,10],[-1,10],[3,10]]
		"error": "nonzero", "no_error": [3, -1]|10,[[-13,10]]
		"error": "nonzero", "no_error": [4294967295]|20,[[-13,10],[3,10]]
	END
}

@test "stats: --errors shows codes and names in a table" {
	need_bpf
	attach_fails
	fsn stats fails --errors
	assert_output_line "no call has failed yet"
	capture "$FIX/call" --arg 0,2,2,-1,9 fail 500
	fsn stats fails --errors
	assert_eq "$(sed 1d <<<"$output" | tr -s ' ' | sed 's/ *$//')" "FUNCTION COUNT CODE NAME
fix_fail 100 -1 failOther
fix_fail 200 2 failMemory
fix_fail 100 9 -"
	fsn detach fails
}

@test "stats: a function without an error rule has no failed calls" {
	need_bpf
	fsn attach g fix_fail --lib "$LIB"
	capture "$FIX/call" --arg 1,-1 fail 10
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, .errors, .return_codes]' '[10,0,[]]'
	fsn detach g
}

@test "stats: codes that the table has dropped are counted as lost" {
	need_bpf
	attach_fails
	fill_codes
	fsn stats fails --json
	assert_sound
	assert_json '.[0].functions[0] | [.name, .errors, (.return_codes | length)]' \
		'["fix_ret",8256,8192]'
	assert_json '.[0].health.lost_codes' 64
	assert_json '[.[0].functions[0].return_codes[].count] | add' 8192
	fsn detach fails
}

others() { # GROUP: its samples of errors without a code of their own
	"$FUNCSNOOP" stats "$1" --format prometheus |
		sed -nE 's/^funcsnoop_errors_total\{.*code="other"\} //p'
}

# They are read after what they are a part of; while calls fail, the rest of that falls.
@test "stats: failed calls dropped by the table of codes have a stable counter" {
	local i seen=()

	need_bpf
	attach_fails
	fill_codes
	assert_eq "$(others fails)" 64
	start_bg ret "$FIX/call" --until-line --arg -1,-2,-3 ret
	wait_line ret "^running "
	for ((i = 0; i < 4; i++)); do
		seen+=("$(others fails)")
	done
	assert_eq "$(printf '%s\n' "${seen[@]}" | uniq -c | xargs)" "4 64"
	tell ret
	wait_bg ret
	capture "$FIX/call" --arg -9001,-1,-9002 ret 30
	assert_eq "$(others fails)" 84
	capture "$FIX/call" --arg 2 fail 5
	assert_eq "$(others fails | xargs)" "5 84"
	assert_eq "$("$FUNCSNOOP" stats fails --format prometheus | awk '
		/^funcsnoop_errors_total\{/ { n -= $2 } /^funcsnoop_returns_total\{/ { n += $2 }
		END { print n }')" 0 "calls that failed, as all did, and their codes"
	fsn reset fails
	assert_eq "$(others fails)" ""
	fsn detach fails
}

# --- slow calls --------------------------------------------------------------------------

@test "stats: --slow shows arguments, result and duration of a slow call" {
	need_bpf
	fsn attach g fix_args6 fix_sleep_us --lib "$LIB"
	capture "$FIX/call" --arg 9 args6 1
	fsn stats g --slow --json
	assert_json '.[0].slow_calls' '[]'
	fsn set g --slow 0ns
	assert_output ""
	assert_stderr ""
	capture "$FIX/call" --arg 7 --comm slowpoke args6 1
	fsn stats g --slow --json
	assert_json '.[0].slow_calls | length' 1
	assert_json '.[0].slow_calls[0] | keys_unsorted' '["type","ts_ns","time","group","function","pid","tid","comm","args","ret","ret_name","duration_ns","noise_ns","slow","failed","cookie"]'
	assert_json '.[0].slow_calls[0] | [.type, .group, .function, .comm, .ret, .ret_name, .slow,
		.failed, .pid == .tid]' \
		'["call","g","fix_args6","slowpoke",637,null,true,false,true]'
	assert_json '.[0].slow_calls[0].args' \
		'{"arg1":"0x7","arg2":"0xe","arg3":"0x15","arg4":"0x1c","arg5":"0x23","arg6":"0x2a"}'
	assert_json '.[0].slow_calls[0].pid == .[0].functions[0].processes[-1].pid' true
	capture "$FIX/call" --arg 30000 sleep_us 1
	fsn stats g --slow --json
	assert_json '.[0].slow_calls[1] | [.function, .args.arg1, .duration_ns >= 30000000]' \
		'["fix_sleep_us","0x7530",true]'
	assert_json '.[0].functions | map([.name, .slow]) | sort' \
		'[["fix_args6",1],["fix_sleep_us",1]]'
	fsn detach g
}

@test "stats: calls at least as long as the threshold are slow, shorter ones are not" {
	need_bpf
	fsn attach g fix_sleep_us --lib "$LIB" --slow 500ms
	capture "$FIX/call" --arg 1000,500000 sleep_us 6
	fsn stats g --slow --json
	assert_json '.[0].functions[0] | [.calls, .slow]' '[6,3]'
	assert_json '.[0].slow_calls | map(.duration_ns >= 500000000) | [length, all]' '[3,true]'
	assert_json '.[0].slow_calls | map(.ts_ns) | . == sort' true
	fsn stats g --json
	assert_json '.[0] | has("slow_calls")' false
	fsn detach g
}

@test "stats: --slow shows the last 1,024 slow calls and counts the others" {
	need_bpf
	fsn attach g fix_ret --lib "$LIB" --slow 0ns
	capture "$FIX/call" --arg "$(seq -s, 1 60)" ret 1500
	fsn stats g --slow --json
	assert_sound
	assert_json '.[0] | [.functions[0].slow, (.slow_calls | length), .health.lost_slow]' \
		'[1500,1024,476]'
	# Call n (from 0) has the argument n % 60 + 1: these are the last ones, in order.
	assert_json '.[0].slow_calls | map(.ret) == [range(476; 1500) | . % 60 + 1]' true
	assert_json "[$(printf '"0x%x",' {0..59})\"0x3c\"] as \$hex |
		.[0].slow_calls | map(.args.arg1 == \$hex[.ret]) | all" true
	fsn reset g
	fsn stats g --slow --json
	assert_json '.[0] | [(.slow_calls | length), .health.lost_slow]' '[0,0]'
	capture "$FIX/call" --arg 5 ret 3
	fsn stats g --slow --json
	assert_json '.[0].slow_calls | map(.ret)' '[5,5,5]'
	fsn detach g
}

@test "stats: the table of slow calls has its columns" {
	need_bpf
	fsn attach g fix_args6 --lib "$LIB" --slow 0ns
	fsn stats g --slow
	assert_output_line "no slow call yet"
	capture "$FIX/call" --arg 1 args6 1
	fsn stats g --slow
	assert_eq "$(sed -n 2p <<<"$output" | tr -s ' ')" "TIME COMMAND PID/TID DURATION RESULT CALL"
	assert_output_match "^([0-9-]+ )?[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6} +call +[0-9]+/[0-9]+ .* 91 +fix_args6\(0x1, 0x2, 0x3, 0x4, 0x5, 0x6\)$"
	fsn detach g
}

@test "set: --slow changes one function, several, or none" {
	need_bpf
	fsn attach g fix_add fix_ret fix_fail --lib "$LIB"
	fsn set g --slow 'fix_[ar]*=0ns'
	capture "$FIX/call" add 4
	capture "$FIX/call" ret 3
	capture "$FIX/call" fail 2
	fsn set g --slow 0ns --slow fix_ret=off --json
	assert_output '{"version":1}'
	capture "$FIX/call" add 4
	capture "$FIX/call" ret 3
	capture "$FIX/call" fail 2
	fsn set g --slow off
	capture "$FIX/call" add 4
	fsn stats g --json
	assert_json '.[0].functions | sort_by(.name) | map([.name, .calls, .slow])' \
		'[["fix_add",12,8],["fix_fail",4,2],["fix_ret",6,3]]'
	fsn detach g
}

@test "set: unknown functions and groups, and wrong usage, are errors and change nothing" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	fsn -s 1 set g --slow nosuch=0ns
	assert_stderr "funcsnoop set: no timed function 'nosuch' in group 'g'"
	fsn -s 1 set g --slow 0ns --slow nosuch=0ns
	capture "$FIX/call" add 5
	fsn stats g --json
	assert_json '.[0].functions[0].slow' 0
	fsn -s 2 set g
	assert_stderr_match "^funcsnoop set: nothing to change"
	fsn -s 2 set
	fsn -s 2 set g h --slow 1ms
	fsn -s 2 set g --slow 5
	fsn -s 1 set nosuch --slow 1ms
	assert_stderr_match "^funcsnoop set: no group 'nosuch' is attached$"
	fsn detach g
}

# --- the table ---------------------------------------------------------------------------

@test "table: errors, slow calls and self time have columns if there are some" {
	need_bpf
	fsn attach g fix_fail fix_nested fix_add --lib "$LIB" --exit return --slow 0ns
	capture "$FIX/call" add 3
	fsn stats g
	assert_eq "$(sed -n 2p <<<"$output" | tr -s ' ')" "FUNCTION CALLS TIME% TOTAL AVG P50 P99 MAX SLOW CALLS/S"
	capture "$FIX/call" --arg 3 nested 1
	fsn stats g
	assert_eq "$(sed -n 2p <<<"$output" | tr -s ' ')" "FUNCTION CALLS TIME% TOTAL SELF AVG P50 P99 MAX SLOW CALLS/S"
	fsn stats g --format csv
	assert_output_match ',self_ns,.*,min_ns,.*,p90_ns,.*,slow,errors'
	fsn detach g
}

@test "stats: the table has its columns in order, and a row for each called function" {
	need_bpf
	fsn attach g fix_add fix_ret --lib "$LIB" --raw
	fsn stats g
	assert_output_line "no calls yet"
	capture "$FIX/call" add 10
	fsn stats g
	assert_output_match "^g since [0-9]{4}-"
	assert_eq "$(sed -n 2p <<<"$output" | tr -s ' ')" \
		"FUNCTION CALLS TIME% TOTAL AVG P50 P99 MAX CALLS/S"
	assert_output_match "^fix_add +10 +100\.0 "
	refute_output_match "^fix_ret"
	refute_output_match $'\e'
	fsn stats g --all
	assert_output_match "^fix_ret +0 +- +- +- +- +- +- +0\.0$"
	fsn stats g -a --color always
	assert_output_match "fix_ret"
	fsn detach g
}

@test "stats: functions are sorted by total time, or by --sort" {
	need_bpf
	attach_fails
	fsn attach g fix_sleep_us fix_add fix_ret --lib "$LIB" --slow fix_ret=0ns
	capture "$FIX/call" --arg 50000 sleep_us 2
	capture "$FIX/call" add 30
	capture "$FIX/call" ret 10
	order() { # [OPTION...]
		fsn stats g --json "$@"
		json '.[0].functions | map(.name) | join(" ")'
	}
	[[ $(order) == "fix_sleep_us "* ]]
	assert_eq "$(order)" "$(order --sort total)"
	assert_eq "$(order --sort calls)" "fix_add fix_ret fix_sleep_us"
	assert_eq "$(order --sort name)" "fix_add fix_ret fix_sleep_us"
	[[ $(order --sort avg) == "fix_sleep_us "* ]]
	[[ $(order --sort max) == "fix_sleep_us "* ]]
	[[ $(order --sort p99) == "fix_sleep_us "* ]]
	assert_eq "$(order --sort slow)" "fix_ret fix_add fix_sleep_us"
	assert_eq "$(order --sort calls --top 2)" "fix_add fix_ret"
	assert_eq "$(order --sort calls --top 1)" "fix_add"
	assert_eq "$(order --top 100 | wc -w)" 3
	fsn detach g
	capture "$FIX/call" --arg 2 fail 5
	capture "$FIX/call" add 50
	fsn stats fails --json --sort errors
	assert_json '.[0].functions[0].name' fix_fail
	fsn detach fails
}

@test "stats: invalid values of --sort and --top are wrong usage" {
	fsn -s 2 stats --sort nosuch
	assert_stderr_match "^funcsnoop stats: --sort is .*, not 'nosuch'$"
	fsn -s 2 stats --top 0
	assert_stderr_match "^funcsnoop stats: --top '0' is not a number"
	fsn -s 2 stats --top -1
	fsn -s 2 stats --top x
	fsn -s 2 stats --top
}

# --- processes ---------------------------------------------------------------------------

@test "stats: --per-process keeps the rows of exited processes" {
	local a b

	need_bpf
	fsn attach g fix_add --lib "$LIB"
	start_bg a "$FIX/call" --comm alpha add 10 --wait-end
	start_bg b "$FIX/call" --comm beta add 20 --wait-end
	wait_line a "^done "
	wait_line b "^done "
	a=$(bg_pid a)
	b=$(bg_pid b)
	tell a
	wait_bg a
	fsn stats g --json
	assert_json '.[0].functions[0].processes | sort_by(.calls) | map([.pid, .comm, .calls])' \
		"[[$a,\"alpha\",10],[$b,\"beta\",20]]"
	tell b
	wait_bg b
	fsn stats g --json
	assert_json '.[0].functions[0].processes | length' 2
	fsn detach g
}

@test "stats: a process with a reused pid has a row of its own" {
	local pid

	need_bpf
	fsn attach g fix_add --lib "$LIB"
	start_bg first "$FIX/call" --comm first add 10 --wait-end
	wait_line first "^done "
	pid=$(bg_pid first)
	tell first
	wait_bg first
	capture "$FIX/pidreuse" "$pid" "$FIX/call" --comm second add 20
	fsn stats g --json
	assert_sound
	assert_json '.[0].functions[0].processes | sort_by(.calls)
		| map([.pid, .comm, .calls, .returns])' \
		"[[$pid,\"first\",10,10],[$pid,\"second\",20,20]]"
	fsn detach g
}

@test "stats: any program name gives valid JSON" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	capture "$FIX/call" --comm $'a"\\\n\e[1m\xff' add 10
	fsn stats g --json
	assert_json '.[0].functions[0].processes[0].comm | startswith("a\"\\\n\u001b[1m")' true
	iconv -f UTF-8 -t UTF-8 <<<"$output" >/dev/null
	fsn detach g
}
