# SPDX-License-Identifier: BSD-2-Clause
# Statistics by key: keys, sums, readers' access, and calls dropped because the table is full.
# bats file_tags=bpf

load helpers
load stream

LIB=$FIX/libfix.so

setup() {
	common_setup
	need_bpf
	need_tool jq
	typed_config i ty_i8 -- t ty_i8 ty_u64 ty_code -- m ty_i8 ty_none ty_double -- p ty_ptr -- \
		s ty_stack -- x ty_text -- a fix_add
}

# bats test_tags=arch
@test "keys: calls are grouped by an argument, with names of values, and summed" {
	fsn attach --config "$CONFIG" t --key v --sum v
	capture "$FIX/typed" ty_i8 1 1 2 0xffffffffffffffff 1
	capture "$FIX/typed" ty_u64 5 5 5 0xfffffffffffffffe
	capture "$FIX/typed" ty_code 2 0xffffffffffffffff 2 7
	assert_eq "$(rows t v "function v calls returns sum_v" | sort)" "ty_code 7 1 1 7
ty_code tyBad 2 2 4
ty_code tyNegative 1 1 -1
ty_i8 -1 1 1 -1
ty_i8 1 3 3 3
ty_i8 2 1 1 2
ty_u64 18446744073709551614 1 1 18446744073709551614
ty_u64 5 3 3 15"
	fsn list --json
	assert_json '[.[0].options | .keys, .sums]' '[["v"],["v"]]'
	fsn -s 2 attach t2 fix_add --lib "$FIX/libfix.so" --limit rows=9 --dry-run
	assert_stderr_match '^funcsnoop attach: .*--limit rows needs --by'
	fsn stats t --by v --top 1
	assert_output_match '^FUNCTION +V +SUM\(v\) +CALLS +'
	assert_eq "$(grep -c '^ty_' <<<"$output")" 1
	fsn stats t --by v --sort calls
	assert_output_match '^ty_code +tyBad +4 +2 '
	fsn stats t --json
	assert_json '[.[0].functions[] | select(.name == "ty_code") | .rows[]
		| [.comm, .key.v.value, .key.v.name, .calls, .returns, .sums.v]] | sort_by(.[1])' \
		'[["typed",-1,"tyNegative",1,1,-1],["typed",2,"tyBad",2,2,4],["typed",7,null,1,1,7]]'
	assert_json '[.[0].functions[] | .calls == ([.rows[].calls] | add)
		and .max_ns == ([.rows[].max_ns] | max)] | all' true
	fsn detach t
}

@test "keys: sums without keys are in the table of functions" {
	fsn attach --config "$CONFIG" t --sum v
	capture "$FIX/typed" ty_i8 1 1 2
	capture "$FIX/typed" ty_i8 5
	capture "$FIX/typed" ty_code 0xffffffffffffffff
	fsn stats t
	assert_output_match '^FUNCTION +SUM\(v\) +CALLS '
	assert_output_match '^ty_i8 +9 +4 '
	assert_output_match '^ty_code +-1 +1 '
	assert_eq "$(rows t function "function sum_v calls" | sort)" "ty_code -1 1
ty_i8 9 4"
	fsn stats t --format prometheus
	refute_output_match argument
	fsn detach t
}

@test "keys: arguments on the stack, text, callers, threads and commands are keys" {
	fsn attach --config "$CONFIG" s --key code,text,small
	capture "$FIX/typed" ty_stack ty_stack
	assert_eq "$(rows s small,text,code "small text code calls")" "-123 on the stack tyBad 2"
	fsn stats s --by small --by text
	assert_output_match '^FUNCTION +SMALL +TEXT +CALLS '
	fsn -s 2 stats s --by small,text --by code,arg:v
	assert_stderr_match ", not 'small,text,code,arg:v'\$"
	fsn attach --config "$CONFIG" x --key text,thread,comm
	capture "$FIX/typed" ty_text abc def abc "" \
		0123456789012345678901234567890 01234567890123456789012345678901x
	assert_eq "$(rows x text "text calls" | sort)" " 1
0123456789012345678901234567890 2
abc 2
def 1"
	assert_eq "$(rows x comm,text "comm text calls" | sort | head -1)" "typed  1"
	fsn stats x --json
	assert_json '.[0].functions[].rows | map(.key.thread.value == .pid) | all' true
	fsn attach --config "$CONFIG" x --key caller --replace
	capture "$FIX/typed" ty_text a b c
	assert_eq "$(rows x caller "calls")" 3
	fsn detach s
	fsn detach x
}

@test "keys: log2:ARG groups values by power of two" {
	fsn attach --config "$CONFIG" t --key log2:v --sum v
	capture "$FIX/typed" ty_u64 0 1 2 3 4 4095 4096 8191 0xffffffffffffffff
	capture "$FIX/typed" ty_i8 100 127
	assert_eq "$(rows t v "function v calls sum_v" | sort)" "ty_i8 64 2 227
ty_u64 0 1 0
ty_u64 1 1 1
ty_u64 2 2 5
ty_u64 2048 1 4095
ty_u64 4 1 4
ty_u64 4096 2 12287
ty_u64 9223372036854775808 1 18446744073709551615"
	fsn detach t
}

@test "keys: calls are grouped by their result when they return" {
	cat >"$BATS_TEST_TMPDIR/ends.json" <<-END
		{ "types": {
			"code_t": { "base": "int", "codes": { "2": "tyBad", "-1": "tyNegative" } } },
		  "lib": "$FIX/libtyped.so", "libs": { "a": "$LIB" },
		  "r_func_sym": {
			"ty_i8": { "symbol": "ty_i8", "args": ["int8_t v"], "ret": "int8_t" },
			"ty_u64": { "symbol": "ty_u64", "args": ["size_t v"] },
			"ty_code": { "symbol": "ty_code", "args": ["code_t v"], "ret": "code_t" } },
		  "v_func_sym": {
			"ty_i8": { "symbol": "ty_i8", "args": ["int8_t v"], "ret": "void" } },
		  "n_func_sym": {
			"ty_i8": { "symbol": "ty_i8", "args": ["int8_t v"], "ret": "void" },
			"ty_code": { "symbol": "ty_code", "args": ["code_t v"], "ret": "code_t" } },
		  "a_func_sym": {
			"fix_add": { "symbol": "fix_add", "args": ["int a", "int b"], "ret": "int" } } }
	END
	CONFIG=$BATS_TEST_TMPDIR/ends.json
	fsn attach --config "$CONFIG" r --key result,v --sum v
	capture "$FIX/typed" ty_i8 1 1 0xff
	capture "$FIX/typed" ty_u64 5 5
	capture "$FIX/typed" ty_code 2 0xffffffff 2 7
	assert_eq "$(rows r result "function result calls returns sum_v" | sort)" "\
ty_code 7 1 1 7
ty_code tyBad 2 2 4
ty_code tyNegative 1 1 -1
ty_i8 -1 1 1 -1
ty_i8 1 2 2 2
ty_u64 0x5 2 2 10"
	fsn stats r --json
	assert_json '[.[0].functions[] | select(.name == "ty_code") | .rows[]
		| [.key.result.value, .key.result.name, .key.v.value, .calls]] | sort' \
		'[[-1,"tyNegative",-1,1],[2,"tyBad",2,2],[7,null,7,1]]'
	fsn detach r
	fsn -s 2 attach --config "$CONFIG" v --key result
	assert_stderr_match "^funcsnoop attach: --by 'result' of no function is a number\$"
	fsn -s 2 attach --config "$CONFIG" a --key result --exit none
	assert_stderr_match "^funcsnoop attach: --by 'result': no function's return is traced\$"
	fsn attach --config "$CONFIG" n --key result
	assert_stderr_match "^funcsnoop attach: calls of 1 of the 2 functions are not broken down"
	capture "$FIX/typed" ty_i8 1 1 ty_i8
	fsn stats n --json
	assert_json '.[0].functions[] | select(.name == "ty_i8") | [(.calls > 0), (.rows | length)]' '[true,0]'
	fsn detach n
	fsn attach --config "$CONFIG" a --key result
	capture "$FIX/call" --threads 4 --arg 1,2 add 200
	fsn stats a --json
	assert_json '.[0].functions[0] | .returns == ([.rows[].returns] | add)
		and .calls == ([.rows[].calls] | add)' true
	fsn detach a
}

@test "keys: presets define keys, and --no-keys disables them" {
	mkdir -p "$XDG_CONFIG_HOME/funcsnoop/presets"
	cat >"$XDG_CONFIG_HOME/funcsnoop/presets/own.json" <<-END
		{ "lib": "$FIX/libtyped.so", "keys": ["v", "nobody"], "sums": "v", "own_func_sym": {
			"ty_i8":   { "symbol": "ty_i8", "args": ["int8_t v"] },
			"ty_none": { "symbol": "ty_none", "args": [] } } }
	END
	fsn attach own
	assert_stderr ""
	capture "$FIX/typed" ty_i8 1 1 2
	assert_eq "$(rows own v "function v calls sum_v" | sort)" "ty_i8 1 2 2
ty_i8 2 1 2"
	fsn attach own --no-keys --replace
	fsn stats own --json
	assert_json '[.[0].functions[].rows] | add' null
	fsn -s 2 stats own --by v
	fsn attach own --key thread --replace
	fsn -s 2 stats own --by v
	fsn attach own ty_none --replace
	fsn -s 2 attach own --no-keys --sum v --replace
	fsn detach own
}

@test "cuda: bytes and time of copies by their direction, of the application's calls alone" {
	need_cuda
	fsn attach cuda --lib "$CUDART"
	capture "$FIX/cudacall" "$CUDART" typed
	fsn stats cuda --by kind --sort calls
	assert_output_match '^FUNCTION +KIND +SUM[(]count[)] +SUM[(]size[)] +CALLS'
	assert_output_match '^cudaMemcpy +cudaMemcpyHostToDevice +4096 +[-0]+ +1 '
	assert_eq "$(rows cuda size "function size calls sum_size" | grep Malloc)" "cudaMalloc 1048576 1 1048576"
	fsn stats cuda --json
	assert_json '.[0].functions | map(select(.rows | length > 0) | select(.name | test("Launch") | not)
		| [.name, (.rows | map([.key.kind.name, .calls, .sums.count, .sums.size]))]) | sort' \
		'[["cudaMalloc",[[null,1,null,1048576]]],["cudaMemcpy",[["cudaMemcpyHostToDevice",1,4096,null]]]]'
	fsn detach cuda
}

@test "keys: unreadable text has a row of its own, and is counted" {
	fsn attach --config "$CONFIG" x --key text
	capture "$FIX/typed" ty_text abc @bad @bad @null @absent
	assert_eq "$(rows x text "text calls" | sort)" "? 4
abc 1"
	fsn stats x --json
	assert_json '.[0].health.lost_texts' 4
	assert_json '[.[0].functions[].rows[] | select(.key.text.value == null) | .calls]' "[4]"
	fsn stats x
	assert_stderr_match '^funcsnoop stats: 4 keys were not read'
	fsn stats x --reset
	fsn stats x --json
	assert_json '.[0].health.lost_texts' 0
	fsn detach x
}

@test "keys: text that changes during the read is valid, and each call is in one row" {
	local text

	fsn attach --config "$CONFIG" x --key text
	for text in {1..2000}; do echo @changing; done | xargs -n 2000 "$FIX/typed" ty_text
	fsn stats x --json
	assert_json '.[0].functions[] | [.calls, .returns, ([.rows[] | .calls] | add),
		([.rows[].key.text.value | test("^[ab]{0,31}$")] | all)]' '[2000,2000,2000,true]'
	assert_json '.[0].health.lost_texts' 0
	fsn detach x
}

@test "keys: a function without the argument is skipped with a warning" {
	fsn attach --config "$CONFIG" m --key v
	assert_stderr_match "^funcsnoop attach: calls of 2 of the 3 functions are not broken down: \
they lack the arguments of --by and --sum; ty_double has x$"
	capture "$FIX/typed" ty_none ty_none
	capture "$FIX/typed" ty_i8 1
	assert_eq "$(rows m v "function v calls")" "ty_i8 1 1"
	fsn stats m --json
	assert_json '[.[0].functions[] | [.name, .calls, (.rows | length), .other_rows]] | sort' \
		'[["ty_i8",1,1,null],["ty_none",2,0,null]]'
	fsn detach m
}

@test "keys: a name that few functions have for an argument is answered with those of another" {
	fsn attach files --by bufsiz -p $$
	assert_stderr_match '^funcsnoop attach: calls of .* are not broken down: they lack the arguments of --by and --sum; [a-z0-9]+ has ([a-z]+, )*filename(, [a-z]+)*$'
	fsn detach files
	fsn attach files --by filename -p $$
	refute_stderr_match ' has [a-z]+.*filename'
	fsn detach files
}

@test "keys: sums of results include only calls that succeed" {
	local error want

	while IFS='|' read -r error want; do
		cat >"$BATS_TEST_TMPDIR/ret.json" <<-END
			{ "r_sym": { "fix_ret": { "ret": "int", "args": ["long value"], "error": "$error",
			  "sum": "amount = result" } }, "lib": "$LIB" }
		END
		fsn attach --config "$BATS_TEST_TMPDIR/ret.json" --sum result --sum amount
		# -13, 3 and 0 of 32 bits below an upper half with something in it.
		capture "$FIX/call" --arg 4294967283,3,-4294967296,5 ret 40
		fsn stats r --json
		assert_eq "$(json '.[0].functions[0] | .errors, .rows[0].sums[]' | tr '\n' ' ')" "$want "
		fsn detach r
	done <<-'END'
		none|0 80 80
		negative|10 80 80
		nonzero|30 0 0
		zero|10 80 80
		not_positive|20 80 80
	END
}

@test "keys: sums of bool results count those that are true" {
	cat >"$BATS_TEST_TMPDIR/bool.json" <<-END
		{ "r_sym": { "fix_ret": { "ret": "bool", "args": ["long value"] } }, "lib": "$LIB" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/bool.json" --sum result
	capture "$FIX/call" --arg 0,1,1,256 ret 40 # of 256 the result has the low byte
	fsn stats r --json
	assert_json '.[0].functions[0] | .calls, .rows[0].sums.result' "40
20"
	fsn detach r
}

@test "keys: stats reports the calls that are not in sums of results" {
	cat >"$BATS_TEST_TMPDIR/some.json" <<-END
		{ "r_sym": { "fix_ret": { "ret": "int", "args": ["long value"],
		  "sum": "amount = result" } }, "lib": "$LIB" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/some.json" --sum amount --sample 1/4
	capture "$FIX/call" --arg 1 ret 400
	fsn stats r
	assert_stderr_match ": [0-9]+ calls are not in the sums of results, because they were not timed$"
	fsn stats r --json
	assert_json '.[0] | .health.sampled_out + .functions[0].rows[0].sums.amount' 400
	fsn detach r
	fsn attach --config "$BATS_TEST_TMPDIR/some.json" --sum amount
	capture "$FIX/call" --arg 1 ret 400
	fsn stats r
	refute_stderr_match "not in the sums"
	fsn detach r
}

@test "keys: an unknown one is answered with those that there are" {
	fsn -s 2 run s:read --by nope -d 0.1
	assert_stderr_match '^hint: use process, comm, thread, cgroup or stack, or an argument of read: fd, buf, count$'
	fsn -s 2 run off-cpu --by nope -d 0.1
	assert_stderr_match '^hint: use process, comm, thread, cgroup or stack, or an argument of off-cpu: .*waker'
	fsn -s 2 run "$LIB:fix_add" --by nope -d 0.1
	assert_stderr_match '^hint: '
	fsn -s 2 run off-cpu --by process,stack -d 0.1
	assert_stderr_match "^funcsnoop run: --by 'process' cannot be combined with stack; use --by comm,stack, or --by stack with --pid$"
	fsn run off-cpu --by comm,stack -p $$ -d 0.1
}

@test "keys: invalid keys and sums are wrong usage, with the reason" {
	local args said

	while IFS='|' read -r args said; do
		# shellcheck disable=SC2086	# options
		fsn -s 2 attach --config "$CONFIG" $args
		assert_stderr_match "^funcsnoop attach: $said"
	done <<-'EOF'
		s --key small,text,a,b|--by: at most 3 of them$
		i --key v,v|--by 'v' is there twice$
		i --key v,|--by: a name is missing$
		i --key nope|--by 'nope': no function has such an argument$
		m --key x|--by 'x' is a floating point number, which programs can't see$
		i --key function|--by 'function' is not known
		i --sum caller|--sum 'caller' is not an argument$
		p --sum v|--sum 'v' is a pointer, and no amount of anything$
		p --key log2:v|--by 'v' is a pointer, and no amount of anything$
		i --key log2:|--by: a name is missing$
		i --sum log2:v|--sum 'v' is not an argument$
		i --sum result|--sum 'result' of no function is declared as a number$
		x --sum text|--sum 'text' is text, and no number$
	EOF
	fsn list
	assert_output ""
	fsn attach --config "$CONFIG" i
	fsn -s 2 stats i --by v
	assert_stderr "funcsnoop stats: --by 'v': no group has such a key
hint: use function, process, cgroup, library, or a key that the group was attached with (--by)"
	fsn -s 2 stats i --by v,,a
	fsn stats i --json
	assert_json '[.[0].functions[].rows] | add' null
	fsn detach i
}

@test "keys: calls and sums of ten keys in eight threads add up during many resets" {
	local i=0 want

	need_tool jq
	fsn attach --config "$CONFIG" a --key a --sum b
	start_bg calls "$FIX/call" --threads 8 --arg 0,1,2,3,4,5,6,7,8,9 add 4000 --wait
	wait_ready calls
	tell calls
	until bg_ended calls; do
		fsn stats a --reset --json
		printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/part.$i"
		i=$((i + 1))
	done
	wait_bg calls
	fsn stats a --reset --json
	printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/part.$i"
	want=$(jq -cn '[range(10) as $k | [$k, 3200, 3200,
		8 * ([range(400) | . * 10 + $k] | add)]]')
	output=$(jq -cs '[.[][].functions[].rows[]] | group_by(.key.a.value)
		| map([.[0].key.a.value, (map(.calls) | add), (map(.returns) | add),
			(map(.sums.b) | add)])' "$BATS_TEST_TMPDIR"/part.*)
	assert_output "$want"
	fsn detach a
}

@test "keys: a hundred thousand keys fill the row of others without loss" {
	fsn attach --config "$CONFIG" a --key b --sum b --keys 1000
	capture "$FIX/call" add 100000
	fsn stats a --json
	assert_json '.[0].functions[0] | [.calls,
		([.rows[].calls, .other_rows.calls, .ended_rows.calls] | add),
		([.rows[].returns, .other_rows.returns, .ended_rows.returns] | add),
		([.rows[].sums.b, .other_rows.sums.b, .ended_rows.sums.b] | add),
		.ended_rows.calls <= 1000, .ended_rows.calls > 900]' \
		"[100000,100000,100000,4999950000,true,true]"
	fsn stats a --by b --top 2
	assert_output_match '^fix_add +others +[0-9]+ +99[0-9]{3} '
	fsn reset a
	capture "$FIX/call" add 20000
	fsn stats a --json
	assert_json '.[0].functions[0] | ([.rows[], .other_rows, .ended_rows | select(.).sums.b] | add)' 199990000
	fsn detach a
}

# Sums of the rows of group i: calls, returns and sum of the present, exited and other rows;
# and the number of rows.
row_sums() {
	fsn stats i --json
	output=$(jq -c '.[0].functions[0] // {} | [([.rows[]?, .ended_rows, .other_rows | select(.)]
		| (map(.calls) | add), (map(.returns) | add), (map(.sums.v) | add)),
		(.ended_rows.calls // 0), (.rows | length)]' <<<"$output")
}

@test "keys: rows of exited processes are reused, those of live ones stay" {
	fsn attach --config "$CONFIG" i --key v --sum v --keys 64
	start_bg typed "$FIX/typed" --wait-end ty_i8 100 101
	wait_line typed "^done"
	for i in {1..6}; do
		capture "$FIX/typed" ty_i8 1 2 3 4 5 6 7 8
	done
	row_sums # of 50 rows, which are more than half
	assert_output_match '^\[50,50,417,[1-9]'
	fsn stats i --by v
	assert_output_match '^ty_i8 +ended +'
	fsn stats i --json
	assert_json '.[0].functions[0] | [(.rows | length) <= 17,
		([.rows[] | select(.key.v.value >= 100) | .calls] | add),
		.ended_rows.max_ns <= .max_ns and .ended_rows.max_ns > 0]' '[true,2,true]'
	fsn reset i
	row_sums
	assert_output "[null,null,null,0,0]"
	capture "$FIX/typed" ty_i8 1 2 3
	row_sums
	assert_output "[3,3,6,0,3]"
	tell typed
	wait_bg typed
	fsn detach i
}

@test "keys: concurrent exits, reads and resets neither lose nor double calls" {
	local i

	fsn attach --config "$CONFIG" i --key v --sum v --keys 32
	for i in {1..10}; do
		capture "$FIX/typed" ty_i8 1 2 3 4 5 6 7 8
		capture "$FIX/typed" ty_i8 1 2 3 4 5 6 7 8
		row_sums
		((i % 3)) || fsn stats i --reset --json
		printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/part.$i"
	done
	fsn stats i --json
	printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/part.12"
	output=$(jq -cs '[.[] | select(type == "array" and (.[0] | type) == "object")[].functions[]
		| .rows[], .ended_rows, .other_rows | select(.)]
		| [(map(.calls) | add), (map(.returns) | add), (map(.sums.v) | add)]' \
		"$BATS_TEST_TMPDIR"/part.{3,6,9,12})
	assert_output "[160,160,720]"
	fsn detach i
}

@test "keys: intervals show rows of the interval, and replaced groups start at 0" {
	fsn attach --config "$CONFIG" i --key v --sum v
	capture "$FIX/typed" ty_i8 1 1 2
	fsn attach --config "$CONFIG" i --key v --sum v --replace
	capture "$FIX/typed" ty_i8 3
	assert_eq "$(rows i v "v calls sum_v")" "3 1 3"
	start_bg reads "$FUNCSNOOP" stats i --by v --format csv -i 0.2
	wait_line reads '^time,'
	capture "$FIX/typed" ty_i8 3 3
	both_came() {
		(($(awk -F, '/ty_i8,/ { n += $7 } END { print 0 + n }' "$(bg_out reads)") == 2))
	}
	poll_until both_came
	stop_bg -INT reads
	fsn detach i
}

@test "keys: --fail-if has conditions for calls with a key, by value or name" {
	local args said

	fsn attach --config "$CONFIG" t --key v,thread --sum v
	capture "$FIX/typed" ty_code 2 2 7
	capture "$FIX/typed" ty_code 2 7
	capture "$FIX/typed" ty_i8 -1
	fsn -s 3 stats t --fail-if 'calls[v=2]>=3'
	assert_stderr "funcsnoop stats: ty_code[v=2] of t: calls is 3 (calls[v=2]>=3)"
	fsn -s 3 stats t --fail-if 'calls[v=tyBad] = 3' --fail-if 'calls[v=0x7]==2' \
		--fail-if 'calls[arg:v=-1]>0' --fail-if 'max[v=2]>0ns'
	assert_eq "$(wc -l <<<"$stderr")" 4
	fsn stats t --fail-if 'calls[v=2]>3' --fail-if 'calls[v=3]<9' --fail-if 'errors[v=2]>0'
	fsn stats t --save "$BATS_TEST_TMPDIR/saved"
	capture "$FIX/typed" ty_code 2 2 2 2 2 2
	fsn -s 3 stats t --diff "$BATS_TEST_TMPDIR/saved" --fail-if 'calls[v=2]>100%' \
		--fail-if 'calls[v=7]!=0%'
	assert_stderr_match "^funcsnoop stats: ty_code\[v=2\] of t: calls was 3, is 9, \+200.0 %"
	assert_eq "$(wc -l <<<"$stderr")" 1
	while IFS='|' read -r args said; do
		fsn -s 2 stats t --fail-if "$args"
		assert_stderr_match "^funcsnoop stats: --fail-if '.*$said"
	done <<-'EOF'
		calls[b=1]>0|: no group has such a key$
		calls[v=1>0|has no \[KEY=VALUE\] or up to 3
		calls[v]>0|has no \[KEY=VALUE\]
		calls[]>0|has no \[KEY=VALUE\]
		calls[v=1,v=1,v=1,v=1]>0|has no \[KEY=VALUE\] or up to 3
		p99[v=1]>0s|: p99 by key is known only for GPU activity$
		p999[v=1]>0s|: p999 is not known by key$
	EOF
	fsn detach t
}

@test "keys: --diff compares rows by key" {
	local saved=$BATS_TEST_TMPDIR/saved order

	fsn attach --config "$CONFIG" t --key v,thread --sum v
	capture "$FIX/typed" ty_code 2 2 7
	capture "$FIX/typed" ty_code 2 5
	fsn stats t --save "$saved"
	fsn reset t
	capture "$FIX/typed" ty_code 2 7 7 9
	for order in "--by v --diff $saved" "--diff $saved --by v"; do
		# shellcheck disable=SC2086	# options
		fsn stats t $order --format csv
		output=$(tr -d '\r' <<<"$output" | awk -F, '$6 == "calls" || NR == 1 {
			print $3, $5, $7, $8, $10 }' | sort)
		assert_output "function v before after status
ty_code 5 1  vanished
ty_code 7 1 2 both
ty_code 9  1 new
ty_code tyBad 3 1 both"
	done
	fsn stats t --diff "$saved" --by v
	assert_output_match '^FUNCTION +V +WHAT +BEFORE +AFTER +CHANGE'
	assert_output_match '^ty_code +7 +calls +1 +2 +\+100'
	fsn stats t --diff "$saved" --by v --json
	assert_json '[.[0].functions[] | [.name, .key.v.value, .key.v.name, .status, .calls.after]]
		| sort' '[["ty_code","2","tyBad","both",1],["ty_code","5",null,"vanished",null],["ty_code","7",null,"both",2],["ty_code","9",null,"new",1]]'
	fsn stats t --diff "$saved"
	assert_output_match '^ty_code +calls +5 +4 '
	fsn -s 2 stats t --diff "$saved" --by b
	fsn -s 2 stats t --diff "$saved" --by process
	fsn detach t
}

@test "keys: --diff distinguishes keys with invalid UTF-8 of a group and of a document" {
	local saved=$BATS_TEST_TMPDIR/saved

	fsn attach --config "$CONFIG" x --key text
	capture "$FIX/typed" ty_text $'\xff' $'\xfe' $'\xfe'
	fsn stats x --save "$saved"
	jq -e '[.[0].functions[].rows[].key.text.value] | unique | . == ["\\xfe","\\xff"]' "$saved"
	fsn stats x --diff "$saved" --by text --format csv
	output=$(tr -d '\r' <<<"$output" | awk -F, '$6 == "calls" { print $5, $7, $8, $10 }' | sort)
	assert_output '\xfe 2 2 both
\xff 1 1 both'
	fsn detach x
}

@test "keys: --diff names the keys that made a function faster or slower" {
	local saved=$BATS_TEST_TMPDIR/saved

	fsn attach --config "$CONFIG" t --key v
	capture "$FIX/typed" ty_code 5 7 7 5
	fsn stats t --save "$saved"
	# Calls took 1 s on average: those with v=7 nearly all of it.
	jq -c '.[0].functions[] |= (.total_ns = 4000000000 |
		.histogram = [{ ge_ns: 999999999, lt_ns: 1000000001, count: 4 }] |
		.rows[] |= (.total_ns = (if .key.v.value == 7 then 3800000000 else 200000000 end) |
		.max_ns = .total_ns / 2))' "$saved" >"$saved.known"
	fsn stats t --diff "$saved.known"
	assert_eq "$(sed -n '2,4p' <<<"$output" | sed -E 's/: .* per/: N per/; s/ [0-9.]+ [mun]s\)/ N)/; s/ +/ /g')" \
		"ty_code is faster: N per call instead of 1.00 s (noise N), -4.00 s in 4 calls
 v=7: N per call instead of 1.90 s (noise N), -3.80 s in 2 calls
FUNCTION WHAT BEFORE AFTER CHANGE"
	fsn stats t --diff "$saved.known" --by v --json
	assert_json '[.[0].functions[] | [.key.v.value, .time.beyond_noise]] | sort' '[["5",true],["7",true]]'
	# Fewer calls of one key, another one is new.
	jq -c '.[0].functions[] |= (.total_ns = 4000000000 | .calls = 5 | .returns = 5 |
		.histogram = [{ ge_ns: 799999999, lt_ns: 800000001, count: 5 }] |
		.rows |= map(select(.key.v.value == 7)) | .rows[] |= (.total_ns = 4000000000 |
		.calls = 5000000 | .returns = 5000000 | .max_ns = 4000000000))' "$saved" >"$saved.known"
	fsn stats t --diff "$saved.known"
	assert_output_match '^    v=7: 5000000 calls before, -4\.00 s in 2 calls$'
	fsn detach t
}

# Samples of one family, without what all have.
samples() { # FAMILY
	grep "^funcsnoop_$1{" <<<"$output" | sed -E "s/group=.*library=\"[^\"]*\",?//; s/^funcsnoop_$1//"
}

@test "keys: series have a key label, a limit, and keep their places" {
	local file=$BATS_TEST_TMPDIR/a.prom

	fsn attach --config "$CONFIG" t --key v --sum v
	capture "$FIX/typed" ty_u64 5 5 0xfffffffffffffffe
	capture "$FIX/typed" ty_u64 7
	capture "$FIX/typed" ty_code 2 0xffffffffffffffff 7 2
	fsn stats t --format prometheus
	refute_output_match ',v="'
	fsn stats t --by v --format prometheus
	assert_eq "$(samples calls_total)" '{v="others"} 0
{v="tyBad"} 2
{v="tyNegative"} 1
{v="7"} 1
{v="others"} 0
{v="5"} 2
{v="18446744073709551614"} 1
{v="7"} 1'
	assert_eq "$(samples returns_total | tail -n 4)" '{v="others"} 0
{v="5"} 2
{v="18446744073709551614"} 1
{v="7"} 1'
	assert_eq "$(samples argument_total)" '{v="others",argument="v"} 0
{v="5",argument="v"} 10
{v="18446744073709551614",argument="v"} 18446744073709551614
{v="7",argument="v"} 7'
	assert_eq "$(samples signed_argument)" '{v="others",argument="v"} 0
{v="tyBad",argument="v"} 4
{v="tyNegative",argument="v"} -1
{v="7",argument="v"} 7'
	assert_eq "$(samples duration_seconds_count | head -3)" '{v="others"} 0
{v="tyBad"} 2
{v="tyNegative"} 1'
	assert_eq "$(samples in_flight)" '{} 0
{} 0'
	# One more process, and calls that would be more than those that came first.
	capture "$FIX/typed" ty_u64 9 9 9 9 7 5
	fsn stats t --by v --format prometheus --top 2
	assert_eq "$(samples calls_total | tail -3)" '{v="others"} 6
{v="5"} 3
{v="18446744073709551614"} 1'
	cp "$BATS_TEST_TMPDIR/.out" "$file"
	if command -v promtool >/dev/null; then
		capture bash -c 'promtool check metrics <"$0"' "$file"
		assert_output ""
	fi
	fsn stats t --by v --format openmetrics
	assert_output_line "# TYPE funcsnoop_argument counter"
	assert_output_line "# TYPE funcsnoop_signed_argument gauge"
	fsn -s 2 stats t --by library --format prometheus
	fsn detach t
}

# Keys of long-lived and of exiting processes.
@test "keys: evicted rows of exited processes do not make a series fall" {
	local dir=$BATS_TEST_TMPDIR i files=()

	fsn attach --config "$CONFIG" i --key v --sum v --keys 64
	for i in {1..16}; do
		capture "$FIX/typed" ty_i8 1 1 2 "$i" "$((i + 20))" "$((i + 40))" "$((i + 60))" "$((i + 80))"
		fsn stats i --by v --top 3 --format prometheus
		cp "$dir/.out" "$dir/$i.prom"
		files+=("$dir/$i.prom")
		assert_eq "$(samples calls_total | awk '{ n += $NF } END { print n }')" "$((8 * i))"
	done
	assert_only_grows "${files[@]}"
	assert_eq "$(grep -c ',fold="' "$dir/1.prom")" 0
	grep -q '^funcsnoop_calls_total{.*,v="others",fold="[2-9]"} ' "$dir/16.prom" ||
		fail "no second fold: $(samples calls_total)"
	fsn detach i
}

@test "keys: values are escaped in metrics, and equal names are one series" {
	fsn attach --config "$CONFIG" s --key code,text,small
	capture "$FIX/typed" ty_stack
	fsn stats s --by small,code --format prometheus
	assert_eq "$(samples calls_total | tail -n 1)" '{small="-123",arg_code="tyBad"} 1'
	fsn attach --config "$CONFIG" x --key text,thread
	capture "$FIX/typed" ty_text 'a"b\c' $'two\nlines' $'\x01\xff' others others @bad
	fsn stats x --by text --format prometheus
	assert_eq "$(samples calls_total)" '{text="others"} 2
{text="a\"b\\c"} 1
{text="two\nlines"} 1
{text="\\x01\\xff"} 1
{text="?"} 1'
	fsn stats x --by text,thread --format prometheus
	assert_eq "$(samples calls_total | sed -E 's/"[0-9]+"/TID/' | head -2)" '{text="others"} 0
{text="a\"b\\c",thread=TID} 1'
	fsn detach s
	fsn detach x
}

# Sorted output of a stream of group $1: the result of jq program $2 for each line.
streamed() { # PROGRAM
	output=$(jq -c "select(.type != null) | $1" "$(bg_out s)" | sort)
}

@test "keys: a stream shows the keys of each call" {
	local calls

	fsn attach --config "$CONFIG" t --key v,thread,result --sum v --exit return
	start_stream s t --json
	start_stream line t
	capture "$FIX/typed" ty_code 2 0xffffffff 7
	poll_until has_lines s 3
	poll_until has_lines line 4
	stop_stream line
	assert_output_match 'ty_code\(v=tyBad\) = [^ ]+ <'
	stop_stream s
	streamed '[.key.v.value, .key.v.name, .sums.v, .key.thread.value == .tid, .key.result.value != null]'
	assert_output '[-1,"tyNegative",-1,true,true]
[2,"tyBad",2,true,true]
[7,null,7,true,true]'
	fsn stats t --by result --json
	calls=$(jq -c '[.[0].functions[].rows[].key.result.value] | sort' <<<"$output")
	streamed .key.result.value
	assert_eq "$(jq -cs sort <<<"$output")" "$calls"
	fsn detach t
	# Calls dropped by the table of rows still have arguments; callers are known only by
	# row.
	fsn attach --config "$CONFIG" x --key text,caller,comm --keys 16
	start_stream s x --json
	start_stream entries x --json --events entry
	start_stream line x
	start_stream trace x --format chrome
	for text in {1..40}; do echo "$text"; done |
		xargs "$FIX/typed" ty_text "a text of more than 31 bytes, cut there" @null
	poll_until has_lines s 42
	poll_until has_lines line 43
	poll_until has_lines entries 42
	for s in entries trace line; do stop_stream "$s"; done
	assert_output_match 'ty_text\(text="a text of more than 31 bytes, cut there"\) caller=0x[0-9a-f]+ = '
	refute_output_match ' comm='
	stop_stream s
	streamed '.key.comm.value'
	assert_eq "$(uniq -c <<<"$output")" '     42 "typed"'
	streamed '.key.caller | select(.) | .value'
	assert_output_match '^"0x'
	streamed 'select(.key.text.value) | .key.text.value'
	assert_output_line '"a text of more than 31 bytes, c"'
	assert_eq "$(wc -l <<<"$output")" 41
	assert_eq "$(jq -c .key.text.value "$(bg_out entries)" | sort)" "$(jq -c .key.text.value "$(bg_out s)" | sort)"
	capture jq '[.[] | select(.ph == "X") | .args.key.text.value | numbers, strings] | length' "$(bg_out trace)"
	assert_output 41
	fsn detach x
}

@test "keys: a member of a pointed-to structure is a key, by debug information" {
	local p=$FIX/proto name said

	cat >"$BATS_TEST_TMPDIR/p.json" <<-END
		{ "lib": "$p", "keys": ["desc->shape.rows", "desc->dims[1]", "nobody->x"],
		  "p_func_sym": {
			"pr_walk": { "symbol": "pr_walk" }, "pr_print": { "symbol": "pr_print" } },
		  "q_func_sym": { "pr_copy": { "symbol": "pr_copy" } } }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/p.json"
	assert_stderr_match "^funcsnoop attach: group 'p': --by 'nobody->x': no function has such an argument\$"
	assert_stderr_match "^funcsnoop attach: group 'q': --by 'desc->dims\[1\]': no function has"
	capture "$p"
	fsn stats p --by 'desc->shape.rows,desc->dims[1]' --json
	assert_json '[.[0].functions[] | select(.rows | length > 0) | .rows[] | .key
		| [."desc->shape.rows".value, ."desc->dims[1]".value]] | sort' '[[null,null],[3,9],[4,0]]'
	assert_json '.[0].health.lost_texts' 2
	assert_eq "$(rows p 'desc->dims[1]' "desc->dims[1] calls" | sort)" "0 1
9 1
? 1"
	fsn -s 3 stats p --fail-if 'calls[desc->dims[1]=9,desc->shape.rows=3]>0'
	fsn stats p --by 'desc->dims[1]' --format prometheus
	assert_eq "$(samples calls_total | grep -c ',*desc_dims_1="9"} 1')" 1
	fsn stats q --json
	assert_json '[.[0].functions[].rows] | add' '[]'
	fsn detach p
	fsn detach q
	for name in gz debuglink; do
		fsn attach g pr_walk --lib "$FIX/$name/proto" --key 'desc->rank,arg1->name,desc->next'
		capture "$FIX/$name/proto"
		fsn stats g --json
		assert_json '[.[0].functions[].rows[] | [(.key | ."desc->rank".value,
			."arg1->name".value, ."desc->next".value), .calls] | tostring] | sort' \
			'["[0,\"0x0\",\"0x0\",2]","[null,null,null,1]"]' "$name"
		fsn detach g
	done
	while IFS='|' read -r name said; do
		fsn -s 2 attach g pr_walk pr_copy --lib "$p" --key "$name"
		assert_stderr_match "^funcsnoop attach: --by '.*' $said\$"
	done <<-'EOF'
		desc->nope|is not a member of the structure
		desc->dims|is an array: add an index, such as \[0\]
		desc->dims[4]|is outside of its array
		desc->dims[x]|has an index that is not a number
		desc->shape|is not a number of up to 8 bytes
		desc->next->rank|is reached through a second pointer, and only one is followed
		desc->rank.x|is not a member: there is no structure
		desc->|is not a member of the structure
		desc->rank x|is not ARG->MEMBER, optionally followed by .MEMBER or \[N\]
		n->x|is behind no pointer
		path->x|is not a member: there is no structure
	EOF
	fsn -s 2 attach g pr_walk --lib "$p" --sum 'desc->rank'
	assert_stderr_match "is a member, and those are keys only"
	fsn -s 2 attach g pr_walk --lib "$FIX/stripped/proto" --key 'desc->rank'
	assert_stderr_match "no debug information"
	fsn -s 2 attach --config "$CONFIG" p --key 'v->x'
	assert_stderr_match "needs debug information, of which there is none"
}

@test "keys: a caller has a function's name or a file's, also after its process has exited" {
	local bare=$BATS_TEST_TMPDIR/bare

	fsn attach --config "$CONFIG" i --key caller
	start_bg one "$FIX/typed" --wait-end ty_i8 1 2
	wait_line one '^done'
	start_bg two "$FIX/typed" --wait-end ty_i8 3
	wait_line two '^done'
	assert_eq "$(rows i caller "function caller calls" | sed -E "s/(main|call_words)\+0x[0-9a-f]*/PLACE/")" \
		"ty_i8 PLACE 3"
	tell one
	wait_bg one
	tell two
	wait_bg two
	fsn stats i --json
	assert_json '[.[0].functions[].rows[].key.caller | (.value | test("^0x[0-9a-f]+$")),
		(.name | test("^(main|call_words)\\+0x[0-9a-f]+$"))] | unique' '[true]'
	fsn reset i
	strip -o "$bare" "$FIX/typed"
	start_bg one env LD_LIBRARY_PATH="$FIX" "$bare" --wait-end ty_i8 1
	wait_line one '^done'
	assert_eq "$(rows i caller "caller calls" | sed 's/0x[0-9a-f]*/OFF/')" "bare+OFF 1"
	tell one
	wait_bg one
	fsn reset i
	capture "$FIX/typed" ty_i8 1 # no command sees it while it runs
	assert_eq "$(rows i caller "caller calls" | sed -E "s/^(main|call_words)\+0x[0-9a-f]*/PLACE/")" \
		"PLACE 1"
	fsn detach i
}

@test "keys: callers in libraries of exited programs have names, or file and offset" {
	local lib=$BATS_TEST_TMPDIR/libloaded.so gone=$BATS_TEST_TMPDIR/libgone.so

	cp "$FIX/libfix.so.1" "$lib"
	cp "$FIX/libfix.so.1" "$gone"
	fsn attach i fix_add --lib "$FIX/libfix.so.1" --key caller
	export LD_PRELOAD=$FIX/libfix.so.1
	capture "$FIX/dlcall" "$lib" fix_nested 2 1 3
	capture "$FIX/dlcall" "$gone" fix_nested 1 1 3
	unset LD_PRELOAD
	# Another file has its name now.
	cp "$FIX/libfix.so.1" "$gone.new"
	mv "$gone.new" "$gone"
	assert_eq "$(rows i caller "caller calls" | sed 's/0x[0-9a-f]*/OFF/' | sort)" \
		$'fix_nested+OFF 6\nlibgone.so+OFF 3'
	fsn detach i
}

# Names are stored in a map, where the test can see them.
caller_is_known() {
	bpftool map dump pinned "$FUNCSNOOP_BPFFS"/funcsnoop/i-*/*callers | grep -q '+0x'
}

@test "keys: run resolves callers of processes that have exited" {
	need_tool bpftool
	need_arch x86_64
	start_bg r "$FUNCSNOOP" run i --config "$CONFIG" --key caller --by caller \
		--output "$BATS_TEST_TMPDIR/rows" -- "$FIX/typed" --wait-end ty_i8 1
	wait_line r '^done'
	poll_until caller_is_known
	tell r
	wait_bg r
	output=$(<"$BATS_TEST_TMPDIR/rows")
	assert_output_match ' (main|call_words)\+0x[0-9a-f]+ +1 '
}

@test "keys: a terminal shows each row's share of its function's calls" {
	local sign

	need_tool script
	fsn attach --config "$CONFIG" i --key v --exit none
	capture "$FIX/typed" ty_i8 1 1 1 2
	for sign in C:# C.UTF-8:█; do
		capture env LC_ALL="${sign%:*}" script -qec "stty cols 100;
			'$FUNCSNOOP' stats i --by v --sort calls --color never" /dev/null
		output=$(tr -d '\r' <<<"$output")
		sign=${sign#*:}
		assert_output_match '^FUNCTION +V +.* SHARE *$'
		assert_output_match "^ty_i8 +1 +3 .* ($sign){12}\$"
		assert_output_match "^ty_i8 +2 +1 .* ($sign){4}\$"
	done
	fsn stats i --by v
	refute_output_match SHARE
	fsn detach i
}

@test "keys: output files with keys are readable only by their owner" {
	local out=$BATS_TEST_TMPDIR/out args mode

	fsn attach --config "$CONFIG" i --key v --sum v
	capture "$FIX/typed" ty_i8 1
	while read -r mode args; do
		rm -f "$out"
		# shellcheck disable=SC2086	# options
		fsn stats i $args "$out"
		assert_eq "$(stat -c %a "$out")" "$mode" "mode by $args"
	done <<-END
		600 --json --output
		600 --save
		600 --by v --output
		600 --by v --format csv --output
		644 --output
		644 --format csv --output
		644 --format prometheus --output
	END
	fsn attach --config "$CONFIG" i --sum v --replace
	rm -f "$out"
	fsn stats i --json --output "$out"
	assert_eq "$(stat -c %a "$out")" 644
	fsn detach i
}
