# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stats: what --by, --hist, --diff, --fail-if and the terminal's width show.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

attach_fix() { # FUNCTION...
	need_bpf
	fsn attach g "$@" --lib "$LIB"
}

# --- empty results ---------------------------------------------------------------------

@test "stats: --fail-if notes functions that were called whose times are not known, once" {
	fsn attach g fix_add fix_fail --lib "$LIB" --count
	capture "$FIX/call" add 2
	capture "$FIX/call" fail 1
	fsn stats g --fail-if 'max>0ns'
	assert_stderr "funcsnoop stats: --fail-if 'max>0ns' does not judge 'fix_add' and 1 more: they have no max"
	fsn -s 3 stats g --fail-if 'avg>0ns' --fail-if 'calls>1'
	assert_stderr_match "^funcsnoop stats: --fail-if 'avg>0ns' does not judge 'fix_add' and 1 more: they have no avg$"
	fsn attach k fix_fail --lib "$LIB" --count --by comm
	capture "$FIX/call" fail 1
	fsn stats k --fail-if 'max[comm=call]>0ns'
	assert_stderr_match "does not judge 'fix_fail': it has no max$"
	# Each group has a note.
	fsn stats g k --fail-if 'max>0ns'
	assert_eq "$(sed 's/.*judge //' <<<"$stderr")" "'fix_add' and 1 more: they have no max
'fix_fail': it has no max"
	fsn detach k
	fsn reset g
	start_bg loop bash -c "while :; do '$FIX/call' fail 1; done"
	wait_line loop fix_fail
	fsn stats g --fail-if 'max>0ns' -i 0.1 -d 0.5
	assert_eq "$(grep -c 'does not judge' <<<"$stderr")" 1
	assert_stderr_match "does not judge 'fix_fail': it has no max$"
	stop_bg loop
	fsn detach g
}

@test "stats: an empty result shows since when, and that no process has the library" {
	local copy=$BATS_TEST_TMPDIR/libcopy.so

	need_bpf
	cp "$LIB" "$copy"
	fsn attach g fix_add --lib "$copy"
	fsn stats g
	assert_output_line "no calls yet"
	refute_output_match '^attached since'
	assert_output_line "no process maps $copy now"
	sleep 1
	fsn reset g
	fsn stats g
	assert_output_match '^attached since 20..-..-..T..:..:..Z$'
	fsn detach g
}

@test "stats: an empty result shows which process has the library and has not called" {
	attach_fix fix_ret
	start_bg idle "$FIX/call" --wait add 1
	wait_ready idle
	fsn stats g
	assert_output_match "^process $(bg_pid idle) maps .*libfix.so.* and has not called$"
	tell idle
	wait_bg idle
	fsn detach g
}

# --- functions of the same name ----------------------------------------------------------

@test "stats: functions of the same name have their library in text, and not in documents" {
	local a=$BATS_TEST_TMPDIR/liba.so b=$BATS_TEST_TMPDIR/libb.so

	need_bpf
	cp "$LIB" "$a"
	cp "$LIB" "$b"
	fsn attach g "$a:fix_alias_a" "$b:fix_alias_a" "$b:fix_add"
	capture "$FIX/dlcall" "$a" fix_alias_a 3
	capture "$FIX/dlcall" "$b" fix_alias_a 2
	capture "$FIX/dlcall" "$b" fix_add 1
	for view in "" "--show tree"; do
		# shellcheck disable=SC2086	# words
		fsn stats g $view
		assert_output_match '^liba.so:fix_alias_a +3 '
		assert_output_match '^libb.so:fix_alias_a +2 '
		assert_output_match '^fix_add +1 '
	done
	fsn stats g --format csv
	refute_output_match 'so:fix_alias_a'
	fsn stats g --json
	assert_json '[.[0].functions[] | [.name, .calls]] | sort' \
		'[["fix_add",1],["fix_alias_a",2],["fix_alias_a",3]]'
	fsn detach g
}

# --- by process and library ------------------------------------------------------------

@test "stats: processes have exact counts, and exited ones are marked" {
	attach_fix fix_add
	start_bg one "$FIX/call" --wait-end --comm one add 70
	wait_line one '^done '
	capture "$FIX/call" --comm two add 30
	fsn stats g --by process
	assert_output_match "^ *$(bg_pid one)  one +runs +70 "
	assert_output_match "^ *[0-9]+  two +ended +30 "
	fsn stats g --by process --format csv --sort calls
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, 'NR > 1 { print $5, $7, $8 }')" \
		"runs 70 70
ended 30 30"
	tell one
	wait_bg one
	fsn detach g
}

@test "stats: a reused pid is shown as two processes" {
	attach_fix fix_add
	capture "$FIX/call" --wait-end add 5
	capture "$FIX/pidreuse" 31999 "$FIX/call" add 11
	capture "$FIX/pidreuse" 31999 "$FIX/call" add 22
	fsn stats g --by process --sort calls
	assert_eq "$(awk '$1 == 31999 { print $3, $4 }' <<<"$output")" "ended 22
ended 11"
	fsn detach g
}

# The kernel's table has room for tens of thousands of records. Here 30 calls more are put
# into the counters than the processes have, and counted as lost.
@test "stats: calls of processes dropped by the table are in the row 'others'" {
	local pins=$FUNCSNOOP_BPFFS/funcsnoop/g value

	need_tool bpftool jq
	attach_fix fix_add
	capture "$FIX/call" --cpu 0 add 12
	set_bytes() { # MAP JQ
		value=$(bpftool -j map lookup pinned "$pins/$1" key 0 0 0 0 |
			jq -r ".value | $2 | join(\" \")")
		# shellcheck disable=SC2086 # a word a byte
		bpftool map update pinned "$pins/$1" key 0 0 0 0 value $value
	}
	set_bytes stats ".[$(field_at fsn_counts returns)] = \"0x2a\" |
		.[$(field_at fsn_counts calls)] = \"0x2a\""
	set_bytes ctl ".[$(field_at fsn_ctl lost_processes)] = \"0x1e\""
	fsn stats g --by process
	assert_output_match '^ *[0-9]+  call +ended +12 '
	assert_output_match '^ *-  others +- +30 '
	assert_stderr "funcsnoop stats: 30 calls are missing by process: too many processes"
	fsn detach g
}

@test "stats: --by library adds up the functions of a library" {
	attach_fix fix_add fix_ret
	capture "$FIX/call" add 40
	capture "$FIX/call" ret 2
	fsn stats g --by library
	assert_eq "$(awk 'NR == 3 { print $2, $3 }' <<<"$output")" "2 42"
	assert_eq "${#lines[@]}" 3
	fsn detach g
}

# --- histograms --------------------------------------------------------------------------

@test "stats: --hist rows add up to the returns and show the percentiles" {
	attach_fix fix_sleep_us
	# 95 of 100 take 1 ms or more, 5 take 20 ms or more: P50 and P90 below, P99 above.
	capture "$FIX/call" --arg "$(printf '1000,%.0s' {1..19})20000" sleep_us 100
	fsn stats g --hist
	assert_output_line "Function = fix_sleep_us"
	assert_output_match '^ *nsecs +: count +distribution$'
	assert_eq "$(awk '$2 == "->" { n += $5 } END { print n }' <<<"$output")" 100 "sum of rows"
	# Where others have the CPU, calls take longer: the rows themselves say where the ranks are.
	assert_eq "$(awk '$2 == "->" {
			below = n; n += $5; if ($5 > most) most = $5
			for (i = 6; i <= NF; i++) {
				if ($i !~ /^P[0-9]+$/) continue
				rank = substr($i, 2) + 0; ns = $(i + 1) * 1e6
				if (rank <= below || rank > n || ns < $1 * 0.99 || ns > $3 * 1.01 || $(i + 2) !~ /^ms/)
					print
			}
			if (gsub(/[*]/, "") == 40) full = $5
		}
		END { if (full != most) print "not full: " most }' <<<"$output")" "" "ranks"
	assert_output_match '^ *[0-9]+ -> [0-9]+ .* P99 [0-9.]+ ms'
	assert_eq "$(grep -o 'P[0-9][0-9]' <<<"$output" | sort)" "P50
P90
P99"
	fsn detach g
}

# --- total row, width --------------------------------------------------------------------

@test "stats: a table of several functions ends with totals, CSV does not" {
	attach_fix fix_add fix_ret
	capture "$FIX/call" add 40
	fsn stats g
	refute_output_match '^total '
	capture "$FIX/call" ret 2
	fsn stats g
	assert_output_match '^total +42 +100\.0 '
	fsn stats g --format csv
	refute_output_match 'total,'
	fsn detach g
}

@test "stats: the table fits a narrow terminal, and only terminals get colours" {
	local width

	need_terminal
	attach_fix fix_add fix_ret
	capture "$FIX/call" add 1000
	capture "$FIX/call" ret 2
	for width in 60 80 100; do
		capture script -qec "stty cols $width; '$FUNCSNOOP' stats g --color never" /dev/null
		assert_between "$(tr -d '\r' <<<"$output" | awk '!/^cost:/ && length > m { m = length }
			END { print m }')" 40 "$width" "longest line at $width columns"
		assert_output_match '^FUNCTION +CALLS .*TOTAL.* AVG'
	done
	capture env TERM=xterm script -qec "'$FUNCSNOOP' stats g" /dev/null
	[[ $output == *$'\e['* ]] || fail "no colours on a terminal"
	capture env TERM=dumb script -qec "'$FUNCSNOOP' stats g" /dev/null
	[[ $output != *$'\e['* ]] || fail "colours on a dumb terminal"
	fsn stats g
	[[ $output != *$'\e['* ]] || fail "colours without a terminal"
	fsn detach g
}

# --- rates and cost ----------------------------------------------------------------------

@test "stats: calls per second are the calls divided by the time since the reset" {
	local before after began ended

	before=$(date +%s%N)
	attach_fix fix_add fix_ret
	after=$(date +%s%N)
	capture "$FIX/call" add 5000
	capture "$FIX/call" --arg 500000 sleep_us 2 # is not counted, and takes a second
	capture "$FIX/call" ret 1
	began=$(date +%s%N)
	fsn stats g --json
	ended=$(date +%s%N)
	# Neither earlier nor later than it can have been.
	assert_between "$(json '.[0].functions[] | select(.name == "fix_add")
		| (.calls / .calls_per_s * 1e9 | round)')" \
		"$((began - after))" "$((ended - before))" "ns"
	assert_json '.[0] | .calls_per_s * 5000 / 5001
		/ (.functions[] | select(.name == "fix_add").calls_per_s) | . > 0.999 and . < 1.001' true
	fsn stats g --by library --format csv
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		NR == 2 { print $5, ($at["calls_per_s"] > 0) }')" "5001 1"
	fsn stats g
	assert_output_match '^g since 20.*Z, [0-9]+ calls/s$'
	assert_output_match '^FUNCTION +CALLS +TIME% .* MAX +CALLS/S$'
	fsn detach g
}

@test "stats: rare is not shown as never, and without elapsed time there is no rate" {
	local ctl=$FUNCSNOOP_BPFFS/funcsnoop/g/ctl bytes at

	need_tool bpftool jq
	attach_fix fix_add
	capture "$FIX/call" add 1
	at=$(($(field_at fsn_ctl since_ns) + 7)) # the highest byte of the first
	set_since() {
		bytes=$(bpftool -j map lookup pinned "$ctl" key 0 0 0 0 |
			jq -r ".value | .[$at] = \"$1\" | join(\" \")")
		# shellcheck disable=SC2086 # a word a byte
		bpftool map update pinned "$ctl" key 0 0 0 0 value $bytes
	}
	set_since 0x17 # two years ago
	fsn stats g
	assert_output_match '^g since 20.*Z, <0\.1 calls/s$'
	fsn stats g --json
	assert_json '.[0].functions[0].calls_per_s | . > 1e-8 and . < 2e-8' true
	set_since 0x20 # in the future: somebody has set the clock
	fsn stats g
	assert_output_match '^g since 20[^,]*$'
	assert_output_match '^FUNCTION .* MAX$'
	fsn stats g --json
	assert_json '.[0] | [.calls_per_s, .functions[0].calls_per_s]' '[null,null]'
	fsn detach g
}

# The kernel's accounting is everybody's.
own_figures() {
	need_bpf
	own_run
	cat /proc/sys/kernel/bpf_stats_enabled >"$BATS_TEST_TMPDIR/accounting"
}

accounting() { # 0 or 1
	echo "$1" >/proc/sys/kernel/bpf_stats_enabled
}

teardown() {
	if [[ -e $BATS_TEST_TMPDIR/accounting ]]; then
		accounting "$(<"$BATS_TEST_TMPDIR/accounting")"
	fi
	common_teardown
}

@test "cost: is the mean since the reset, and its sum that of the functions" {
	own_figures
	accounting 0
	attach_fix fix_add
	capture "$FIX/call" add 1000
	fsn stats g
	assert_output_match "^cost: ~[0-9.]+ [mu]s/s(, [0-9.]+ % of a CPU)?; estimated from 'feature --calibrate'$"
	assert_output_match "^probes took [0-9.]+ [mu]s of these [0-9.]+ m?s$"
	# By the time that the calls' rate is of, which is taken some moments later.
	fsn stats g --pretty
	assert_json '.[0] | (.cost_ns / .cost_ns_per_s * 1e9) as $ns | (1000 / .calls_per_s * 1e9) as $all |
		[.cost_source, $ns > $all * 0.8, $ns < $all * 1.1]' '["calibration",true,true]'
	assert_json '.[0] | .cost_ns > 0 and .cost_ns == (.functions | map(.cost_ns) | add)' true
	fsn stats g --save "$BATS_TEST_TMPDIR/a.json" --format csv
	assert_eq "$(jq -c '.[0] | [.cost_ns_per_s > 0, .cost_source]' "$BATS_TEST_TMPDIR/a.json")" \
		'[true,"calibration"]'
	fsn reset g
	fsn stats g --json
	assert_json '.[0] | [.cost_ns, .cost_ns_per_s]' '[0,0]'
	fsn detach g
}

# Sets the overhead of all kinds of probes; with five more numbers, these apply to
# single-stepped ones.
set_prices() { # COUNT RETURN RET JUMP EARLY, ns
	(($# > 5)) || set -- "$@" "$@"
	sed -i -E "s/:.*/:$(printf ' 0 %s 0 0' "$@")/" /run/funcsnoop/calibration
}

@test "cost: is the number of calls times the calibrated cost of their probes" {
	need_tool jq
	own_figures
	accounting 0
	fsn feature --calibrate
	set_prices 100 1000 10000 400 700
	attach_fix --exit ret fix_add
	capture "$FIX/call" add 500
	fsn stats g --json
	assert_json '.[0].cost_ns' 5000000
	fsn detach g
	attach_fix --exit return fix_add
	capture "$FIX/call" add 500
	fsn stats g --json
	assert_json '.[0].cost_ns' 500000
	fsn detach g
	attach_fix --exit none fix_add
	capture "$FIX/call" add 500
	fsn stats g --json
	assert_json '.[0].cost_ns' 50000
	fsn detach g
}

# By prices of which an entry's shows in the units, and a ret's in the millions.
assert_hits() { # RETS ENTRIES
	fsn stats g --all --json
	assert_json '.[0].cost_ns | [(. / 1000000 | floor), . % 1000000]' "[$1,$2]"
	fsn detach g
}

@test "stats: overhead includes hits of filtered calls" {
	need_tool jq
	own_figures
	accounting 0
	fsn feature --calibrate
	set_prices 1 1 1000001 1 1
	attach_fix --exit ret fix_add --comm nobody
	capture "$FIX/call" add 500
	assert_hits 500 500
	attach_fix --exit none fix_add --comm nobody
	capture "$FIX/call" add 500
	assert_hits 0 500
	attach_fix --exit ret fix_add --if 'arg1 > 1'
	capture "$FIX/call" --arg 1,2 add 500
	assert_hits 500 500
}

@test "stats: overhead includes a tail call target's ret once per hit, for any caller" {
	need_tool jq
	[[ -e $FIX/libtail.so ]] || skip "no C++ compiler"
	own_figures
	accounting 0
	fsn feature --calibrate
	set_prices 1 1 1000001 1 1 1000001 1 1000001 1 1
	# Ten tail calls and ten direct calls; the former also single-step their first
	# instruction.
	fsn attach g --lib "$FIX/libtail.so" --exit ret tail_to_target
	capture "$FIX/tailcall" jumps 10
	fsn stats g --json
	assert_json '.[0].cost_ns / 1000000 | floor' 30
	fsn detach g
	fsn attach g --lib "$FIX/libtail.so" --exit ret tail_to_target tail_target
	capture "$FIX/tailcall" jumps 10
	fsn stats g --json
	assert_json '.[0].cost_ns / 1000000 | floor' 30
	fsn detach g
}

@test "intervals: the cost is the calls of the interval times the calibrated cost" {
	local cnt

	need_tool jq
	own_figures
	accounting 0
	fsn feature --calibrate
	set_prices 1000 1000000 1000000 1000000 1000000
	attach_fix --exit ret fix_add
	docs() { [[ $(wc -l <"$(bg_out stats)") -ge $1 ]]; }
	start_bg stats "$FUNCSNOOP" stats g -i 0.3 --json
	poll_until docs 1
	capture "$FIX/call" add 500
	cnt=$(wc -l <"$(bg_out stats)")
	poll_until docs $((cnt + 2))
	stop_bg -INT stats
	assert_eq "$(jq -s 'map(.[0].cost_source) | unique | tojson' -r "$(bg_out stats)")" \
		'["calibration"]'
	# 500 calls of 1 ms, by the length of intervals; a busy machine makes them longer.
	assert_between "$(jq -s 'map(.[0].cost_ns_per_s) | add * 0.3 | floor' "$(bg_out stats)")" \
		200000000 600000000
	assert_eq "$(jq -s 'map(.[0].cost_ns) | add' "$(bg_out stats)")" 500000000
	fsn stats g -d 0.1
	refute_output_match '^cost' # nobody has called
	fsn detach g
}

# Alone: the kernel's accounting of programs is switched on.
# bats test_tags=alone
@test "cost: the kernel's accounting is of intervals; stats and list do not wait" {
	local command

	need_tool strace
	own_figures
	attach_fix fix_add
	fsn feature --calibrate
	accounting 1
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	fsn stats g --json
	assert_json '.[0] | [.cost_ns_per_s > 0, .cost_source]' '[true,"calibration"]'
	fsn list g --json
	assert_json '.[0] | [.cost_ns_per_s > 0, .cost_source]' '[true,"calibration"]'
	fsn stats g --watch -i 0.2 -d 0.2
	assert_output_match '^cost: [0-9.]+ [mu]s/s.*; counted by the kernel, without traps$'
	fsn stats g -d 0.1 --json
	assert_json '.[0] | [.cost_ns_per_s > 0, .cost_source]' '[true,"kernel"]'
	for command in stats list; do
		capture strace -f -e trace=nanosleep,clock_nanosleep,poll,ppoll,select,pselect6,epoll_wait \
			-o "$BATS_TEST_TMPDIR/waits" "$FUNCSNOOP" "$command" g
		assert_eq "$(grep -v '+++ exited' "$BATS_TEST_TMPDIR/waits")" "" "$command waits"
	done
	tell calls
	wait_bg calls
	fsn detach g
}

# --- groups that can't be read -------------------------------------------------------------

spoil() { # GROUP...: as another version of the command might have laid it out
	local meta group

	for group; do
		meta=$FUNCSNOOP_BPFFS/funcsnoop/$group/meta
		# shellcheck disable=SC2046 # a word a byte; the layout is the first
		bpftool map update pinned "$meta" key 0 0 0 0 value $(
			bpftool -j map lookup pinned "$meta" key 0 0 0 0 |
				jq -r '.value | .[0] = "0x63" | join(" ")')
	done
}

attach_three() {
	local group

	need_bpf
	need_tool bpftool jq
	for group in a b c; do
		fsn attach $group fix_add --lib "$LIB"
	done
	capture "$FIX/call" add 10
	spoil b
}

assert_left_out() { # [COMMAND]: all that stands on stderr
	assert_eq "$(sed 's/reads layout [0-9]*$/reads layout N/' <<<"$stderr")" \
		"funcsnoop ${1-stats}: group 'b' has layout 99, this command reads layout N
hint: read it with the version that attached it, or detach it"
}

@test "stats: skips a group of another layout with a note, and status 0" {
	attach_three
	fsn stats
	assert_left_out
	assert_eq "$(awk '/ since / { print $1 } /^fix_add/ { print $2 }' <<<"$output")" "a
10
c
10"
	fsn stats --json
	assert_left_out
	assert_json 'map([.group, .functions[0].calls])' '[["a",10],["c",10]]'
	fsn -q stats --json
	assert_stderr ""
	fsn list inflight --json
	assert_left_out list
	assert_output '{"version":1,"calls":[]}'
	fsn stream -d 0.1 --json
	assert_stderr_match "^funcsnoop stream: group 'b' has layout 99, "
	assert_stderr_match "watching 2 functions of 2 groups$"
	fsn stats --format prometheus --output "$BATS_TEST_TMPDIR/a.prom"
	assert_eq "$(grep -c '^funcsnoop_calls_total' "$BATS_TEST_TMPDIR/a.prom")" 2
	fsn -s 3 stats --fail-if 'calls>5' --json
	fsn -s 3 stats --fail-if 'calls>10 || calls>5' --json
	fsn -s 2 stats --fail-if 'calls>10 || ' --json
	fsn stats --fail-if 'calls>10' --json
	# The baseline to be changed is unchanged.
	fsn -s 1 reset
	assert_left_out reset
	fsn stats --all --json
	assert_json 'map([.group, .functions[0].calls])' '[["a",0],["c",0]]'
	# By name it is all or nothing.
	fsn -s 1 stats a b --json
	assert_left_out
	assert_json 'keys' '["error"]'
	fsn detach --all
}

@test "stats: --reset resets the readable groups" {
	attach_three
	fsn -s 1 stats --reset --json
	assert_left_out
	assert_json 'map([.group, .functions[0].calls])' '[["a",10],["c",10]]'
	assert_numbers a ""
	assert_numbers c ""
	spoil a c
	fsn -s 1 stats --json
	assert_json '.error | test("^group .a. has layout 99, ")' true
	fsn detach --all
}

@test "stats: a histogram fits the terminal by shortening bars, then times" {
	local width

	need_terminal
	attach_fix fix_sleep_us
	capture "$FIX/call" --arg 1000 sleep_us 20
	for width in 60 80 120; do
		capture script -qec "stty cols $width; '$FUNCSNOOP' stats g --hist --color never" /dev/null
		assert_eq "$(tr -d '\r' <<<"$output" | awk -v w=$width 'length > w')" "" "too long for $width"
		assert_output_match '\|\*{10,}\|'
		assert_output_match 'P50'
	done
	assert_output_match 'P50 [0-9.]+ ms'
	fsn stats g --hist
	assert_output_match '^       nsecs                 : count      distribution$'
	fsn detach g
}

@test "stats: --interval and --watch report an unreadable group once" {
	attach_three
	start_bg stats "$FUNCSNOOP" stats -i 0.1 -d 0.35 --json
	wait_bg stats
	assert_left_out
	assert_json 'map(.group)' "$(for _ in "${lines[@]}"; do echo '["a","c"]'; done)"
	assert_between "${#lines[@]}" 1 4
	need_terminal
	capture env TERM=xterm script -qec "'$FUNCSNOOP' stats --watch -i 0.1 -d 0.3" /dev/null
	assert_output_match "^group 'b' has layout 99"
	fsn detach --all
}

# --- comparing ---------------------------------------------------------------------------

@test "stats: --diff shows before and after, and new and vanished functions" {
	local saved=$BATS_TEST_TMPDIR/before.json

	attach_fix fix_sleep_us fix_add fix_ret
	capture "$FIX/call" --arg 1000 sleep_us 20
	capture "$FIX/call" add 10
	fsn stats g --save "$saved" --top 1
	assert_eq "$(stat -c %a "$saved")" 644
	assert_eq "$(jq -c '[.[0].functions[].name]' "$saved")" '["fix_add","fix_sleep_us"]'
	fsn reset g
	capture "$FIX/call" --arg 3000 sleep_us 40
	capture "$FIX/call" ret 3

	fsn stats g --diff "$saved"
	assert_output_match '^fix_sleep_us +calls +20 +40 +\+100\.0 %$'
	assert_output_match '^fix_sleep_us +p50 +[0-9.]+ ms +[0-9.]+ ms +~?[+-][0-9.]+ %$'
	assert_output_match '^fix_ret +calls +- +3 +new$'
	assert_output_match '^fix_add +calls +10 +- +vanished$'
	fsn stats g --diff "$saved" --json
	assert_json_true '.[0].functions[] | select(.name == "fix_sleep_us")
		| [.status, .calls.before, .calls.after, .calls.change_percent]
		== ["both", 20, 40, 100]'
	assert_json '[.[0].functions[] | select(.status != "both") | [.name, .status]]' \
		'[["fix_add","vanished"],["fix_ret","new"]]'
	fsn detach g
}

@test "stats: --diff separates slower calls from more calls, and both from noise" {
	local saved=$BATS_TEST_TMPDIR/saved.json

	attach_fix fix_sleep_us
	capture "$FIX/call" --arg 1000 sleep_us 20
	fsn stats g --save "$saved"
	fsn stats g --diff "$saved"
	assert_output_line "no function's mean differs beyond noise"
	fsn reset g
	capture "$FIX/call" --arg 200000 sleep_us 10
	# 100 calls of 100 to 200 us, with a mean of 150 us: its error is 2.9 us.
	jq -c '.[0].functions[0] |= (.total_ns = 15000000 | .returns = 100 | .calls = 100 |
		.noise_ns = 0 | .histogram = [{ ge_ns: 100000, lt_ns: 200000, count: 100 }])' \
		"$saved" >"$saved.known"
	fsn stats g --json
	local total noise beyond=true said='fix_sleep_us is slower: [0-9.]+ m?s per call instead of 150 us \(noise [0-9.]+ [mu]?s\), \+[0-9.]+ m?s in 10 calls'
	total=$(jq '.[0].functions[0].total_ns' <<<"$output")
	noise=$(jq '[.[0].functions[0] | .noise_ns // 0,
		(.histogram | map([(.ge_ns + .lt_ns) / 2, .lt_ns - .ge_ns, .count]) |
		(map(.[0] * .[2]) | add / 10) as $mean |
		map(.[2] * ((.[0] - $mean) * (.[0] - $mean) + .[1] * .[1] / 12)) | add / 9 / 10)] |
		3 * (.[1] + 100000 * 100000 / 12 / 99 | sqrt) + .[0] | floor' <<<"$output")
	# A machine may delay a single call by so much that the others do not count.
	((total / 10 - 150000 > noise)) || { beyond=false said="no function's mean differs beyond noise"; }
	fsn stats g --diff "$saved.known"
	assert_output_match "^$said$"
	fsn stats g --diff "$saved.known" --json
	assert_json '.[0].functions[0].time | [.more_calls_ns, .slower_calls_ns, .mean_change_ns, .beyond_noise] | tostring' \
		"[$((-90 * 150000)),$((total - 1500000)),$((total / 10 - 150000)),$beyond]"
	assert_between "$(json '.[0].functions[0].time.mean_noise_ns')" $((noise - 1)) $((noise + 1))
	fsn detach g
}

@test "stats: --diff compares medians where a few long calls hide the mean" {
	local saved=$BATS_TEST_TMPDIR/saved.json

	attach_fix fix_add
	capture "$FIX/call" add 100
	fsn stats g --save "$saved"
	# 99 calls of 1 to 2 ms and one of 1000 s: the error of the mean is 10 s.
	jq -c '.[0].functions[0] |= (.total_ns = 1000150000000 | .returns = 100 | .calls = 100 | .avg_ns = 10001500000 |
		.p50_ns = 1500000 | .histogram = [{ ge_ns: 1000000, lt_ns: 2000000, count: 99 },
		{ ge_ns: 999999999999, lt_ns: 1000000000001, count: 1 }])' "$saved" >"$saved.known"
	fsn stats g --diff "$saved.known"
	assert_output_match '^fix_add is faster by the median: [~0-9.]+ [num]?s instead of 1\.50 ms; mean [0-9.]+ [num]?s per call instead of 10\.0 s \(noise 30\.[0-9] s\), -1000 s in 100 calls$'
	assert_output_match '^fix_add +avg +.* ~-[0-9.]+ %$'
	assert_output_match '^fix_add +p50 +.* -[0-9.]+ %$'
	fsn stats g --diff "$saved.known" --json
	assert_json '.[0].functions[0].time | [.beyond_noise, .median_beyond_noise]' '[false,true]'
	fsn stats g --diff "$saved"
	assert_output_line "no function's mean differs beyond noise"
	assert_output_match '^fix_add +p50 +.* ~\+0\.0 %$'
	fsn detach g
}

@test "stats: --diff names callees before their callers, and the waits that made them slower" {
	local saved=$BATS_TEST_TMPDIR/saved.json

	need_bpf
	fsn attach g --lib "$FIX/nest" --with split emulated_deep2 emulated_deep3
	capture "$FIX/nest" 10 deep
	fsn stats g --save "$saved"
	# All calls took 1 s: that was the time of the callee, which slept for 800 ms of it.
	jq -c '.[0].functions[] |= (.total_ns = 10000000000 | .returns = 10 | .calls = 10 | .noise_ns = 0 |
		.histogram = [{ ge_ns: 999999999, lt_ns: 1000000001, count: 10 }] |
		.self_ns = (if .name == "emulated_deep3" then 10000000000 else 1000000 end) |
		.on_cpu_ns = 2000000000 | .queued_ns = 0 | .blocked_ns = 8000000000)' "$saved" >"$saved.known"
	fsn stats g --diff "$saved.known"
	assert_eq "$(sed -n '2,3p' <<<"$output" | sed -E 's/-?[0-9.]+ [mun]?s\b/N/g')" \
		"emulated_deep3 is faster: N per call instead of N (noise N), N in 10 calls
    of that N on a CPU, N blocked"
	fsn detach g
}

@test "stats: --diff judges functions hidden by --top, if they have two or more calls" {
	local saved=$BATS_TEST_TMPDIR/saved.json

	attach_fix fix_sleep_us fix_add
	capture "$FIX/call" --arg 50000 sleep_us 10
	capture "$FIX/call" add 1
	fsn stats g --save "$saved"
	fsn stats g --diff "$saved"
	assert_output_line "no mean of two or more calls differs beyond noise"
	capture "$FIX/call" add 19
	# 10 calls of 1 to 2 ms.
	jq -c '(.[0].functions[] | select(.name == "fix_sleep_us")) |= (.total_ns = 15000000 |
		.histogram = [{ ge_ns: 1000000, lt_ns: 2000000, count: 10 }])' "$saved" >"$saved.known"
	fsn stats g --diff "$saved.known" --sort calls --top 1
	assert_output_match '^fix_sleep_us is slower: '
	refute_output_match '^fix_sleep_us  '
	fsn detach g
}

@test "stats: --diff reads any document of stats --json, also from a pipe" {
	attach_fix fix_add
	capture "$FIX/call" add 10
	capture bash -c '"$0" stats g --diff <("$0" stats --pretty) --json' "$FUNCSNOOP"
	assert_json '.[0].functions[0].status' both
	fsn stats g --json
	printf '%s' "$output" >"$BATS_TEST_TMPDIR/a.json"
	fsn stats g --diff "$BATS_TEST_TMPDIR/a.json" --json
	assert_json_true '.[0].functions[0] | [.name, .calls.change_percent] == ["fix_add", 0]'
	fsn detach g
}

@test "stats: a file that is not a stats document is an error" {
	attach_fix fix_add
	for text in '' '{' '[1]' '[{"group":"g"}]' '[{"group":"g","functions":[{"name":1}]}]' \
		'[{"group":"g","functions":[{"name":"a","calls":-1}]}]' '[] x'; do
		echo "$text" >"$BATS_TEST_TMPDIR/bad.json"
		fsn -s 1 stats g --diff "$BATS_TEST_TMPDIR/bad.json"
		assert_stderr_match 'is not a document of .funcsnoop stats --json.$'
	done
	fsn -s 1 stats g --diff /nowhere.json
	assert_stderr "funcsnoop stats: cannot open '/nowhere.json': No such file or directory"
	fsn detach g
}

# --- conditions --------------------------------------------------------------------------

@test "stats: --fail-if exits with status 3, and names the function and its value" {
	attach_fix fix_sleep_us fix_add
	capture "$FIX/call" --arg 2000 sleep_us 10
	capture "$FIX/call" add 10
	fsn stats g --fail-if 'p99>1s' --fail-if 'errors>0' --fail-if 'in_flight != 0'
	assert_stderr ""
	fsn -s 3 stats g --fail-if 'p99>1s' --fail-if 'min>=2ms'
	assert_stderr_match '^funcsnoop stats: fix_sleep_us of g: min is [0-9.]+ ms \(min>=2ms\)$'
	refute_stderr_match fix_add
	assert_output_match '^fix_sleep_us '
	fsn -s 3 stats g --fail-if 'calls=10' --json
	assert_eq "$(wc -l <<<"$stderr")" 2
	assert_json 'length' 1
	fsn detach g
}

@test "stats: --fail-if with a percentage judges the growth since --diff" {
	attach_fix fix_sleep_us
	capture "$FIX/call" --arg 1000 sleep_us 20
	fsn stats g --save "$BATS_TEST_TMPDIR/a.json"
	fsn stats g --diff "$BATS_TEST_TMPDIR/a.json" --fail-if 'avg>0%' --fail-if 'p99>0%'
	fsn reset g
	capture "$FIX/call" --arg 20000 sleep_us 20
	fsn -s 3 stats g --diff "$BATS_TEST_TMPDIR/a.json" --fail-if 'p50>50%'
	assert_stderr_match '^funcsnoop stats: fix_sleep_us of g: p50 was [0-9.]+ ms, is [0-9.]+ ms, \+[0-9.]+ % \(p50>50%\)$'
	fsn stats g --diff "$BATS_TEST_TMPDIR/a.json" --fail-if 'p50>5000%'
	fsn -s 3 stats g --diff "$BATS_TEST_TMPDIR/a.json" --fail-if 'p50>50%' --json
	fsn detach g
}

@test "stats: invalid conditions and conflicting options are wrong usage" {
	local cond

	for cond in '' p99 'p99>' 'p99>5' 'errors>x' 'errors>-1' 'foo>1' '>1' 'p99~5ms' \
		'errors>1.5' 'p99>5ms ' 'p99>%' 'p99>x%'; do
		fsn -s 2 stats --fail-if "$cond"
	done
	fsn -s 2 stats --fail-if 'p99>10%'
	assert_stderr_match 'needs --diff'
	for cond in '--hist --errors' '--by process --slow' '--by a,,b' '--format xml' \
		'--json --format csv' '--format prometheus --hist' '--format prometheus -i 1' \
		'--format openmetrics --reset' '--watch --json' '-i 0' '-i x' '-d -1' '-i 1 --save x'; do
		# shellcheck disable=SC2086 # options
		fsn -s 2 stats $cond
	done
}
