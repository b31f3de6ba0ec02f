# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stats --interval and --watch.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

attach_add() {
	need_bpf
	fsn attach g fix_add fix_ret --lib "$LIB"
}

# Calls of all documents in a file, whole lines only.
sum_calls() { # FILE
	jq -s '[.[][].functions[].calls] | add // 0' "$1"
}

documents() { # NAME CNT: that many lines so far
	(($(wc -l <"$(bg_out "$1")") >= $2))
}

# --- intervals ---------------------------------------------------------------------------

@test "intervals: add up to the calls made while they ran" {
	need_tool jq
	attach_add
	capture "$FIX/call" add 500 # before: in no interval
	start_bg stats "$FUNCSNOOP" stats g -i 0.1 --json
	start_bg calls "$FIX/call" --wait --until-line --threads 4 add
	wait_ready calls
	poll_until documents stats 1 # the first reading is made
	tell calls
	wait_line calls '^running '
	poll_until documents stats 8
	tell calls
	wait_bg calls
	local made
	made=$(sed -nE 's/^result .* calls=([0-9]+) .*/\1/p' <<<"$output")
	stop_bg -INT stats
	assert_eq "$status" 0
	assert_between "$made" 100 1000000000
	assert_eq "$(sum_calls "$(bg_out stats)")" "$made" "sum of intervals"
	# Of everything else, too; and what is true of every reading is true of intervals.
	capture cat "$(bg_out stats)"
	fsn reset g
	while read -r line; do
		output=$line
		assert_eq "$(json "$SOUND unsound")" ""
	done <"$(bg_out stats)"
	assert_eq "$(jq -s '[.[][].functions[] | .histogram[].count] | add' "$(bg_out stats)")" \
		"$(jq -s '[.[][].functions[].returns] | add' "$(bg_out stats)")" "histograms"
	assert_eq "$(jq -s '[.[][].functions[] | .processes[].calls] | add' "$(bg_out stats)")" \
		"$made" "processes"
	fsn detach g
}

@test "intervals: a tail call is untimed in the interval in which it happens" {
	need_bpf
	need_tool jq
	fsn attach g eng_jump_reg eng_spin --lib "$FIX/libengine.so" --exit ret
	capture "$FIX/engine" jumps 70 # before: in no interval
	start_bg stats "$FUNCSNOOP" stats g -i 0.1 --json
	poll_until documents stats 1
	capture "$FIX/engine" jumps 30
	poll_until documents stats "$(($(wc -l <"$(bg_out stats)") + 2))"
	stop_bg -INT stats
	assert_eq "$(jq -rc "$SOUND unsound" "$(bg_out stats)")" ""
	assert_eq "$(jq -sc '[.[][].functions[]] | group_by(.name)
		| map([.[0].name, ([.[].calls] | add), ([.[].untimed] | add)])' "$(bg_out stats)")" \
		'[["eng_jump_reg",30,30],["eng_spin",60,0]]'
	assert_eq "$(jq -s '[.[][].health.left_by_jump] | add' "$(bg_out stats)")" 30
	fsn detach g
}

@test "intervals: calls per second are those of the interval" {
	local began took

	attach_add
	capture "$FIX/call" add 500 # before: in no interval
	capture "$FIX/call" --arg 500000 sleep_us 2 # since the attach it is a second more
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	began=$(date +%s%N)
	fsn stats g -d 0.5 --json
	took=$(($(date +%s%N) - began))
	assert_json '.[0] | .calls_per_s == .functions[0].calls_per_s' true
	# Rates divide by the interval during which the command ran. Its first reading may take
	# slightly longer than its last.
	assert_between "$(json '.[0] | (.functions[0].calls / .calls_per_s * 1e9 | floor)')" \
		480000000 "$took"
	fsn stats g -d 0.2
	assert_output_match '^g in ([2-9][0-9]{2} ms|[1-9][0-9.]* s), [0-9]+ calls/s$'
	assert_output_match '^fix_add +[0-9]+ +(100\.0|-) .* +[0-9]+$'
	tell calls
	wait_bg calls
	fsn stats g -d 0.1 --json --all
	assert_json '.[0] | [.calls_per_s, .functions[].calls_per_s] | add' 0
	fsn detach g
}

@test "intervals: --duration stops by itself, with a shorter last interval" {
	local began=$SECONDS

	attach_add
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	# At most as many intervals as fit, fewer on a busy machine; their sum is the requested
	# duration.
	fsn stats g -i 0.4 -d 1 -T
	assert_between "$(grep -cE '^20[0-9T:-]+Z g in [0-9.]+ m?s, [0-9]+ calls/s$' <<<"$output")" 1 3
	fsn stats g -i 0.4 -d 1 --json
	assert_between "$(wc -l <<<"$output")" 1 3
	((SECONDS - began >= 2)) || fail "it did not wait"
	fsn stats g -d 0.2 --format csv
	assert_eq "${#lines[@]}" 2
	tell calls
	wait_bg calls
	fsn stats g -i 0.1 -d 0.2 --format csv
	assert_eq "${#lines[@]}" 1 # the header: nobody called
	fsn detach g
}

@test "intervals: with --reset each call is in exactly one interval" {
	local made

	need_tool jq
	attach_add
	capture "$FIX/call" add 500
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	start_bg stats "$FUNCSNOOP" stats g -i 0.1 --reset --json
	poll_until documents stats 5
	tell calls
	wait_bg calls
	made=$(sed -nE 's/^result .* calls=([0-9]+) .*/\1/p' <<<"$output")
	stop_bg stats
	assert_eq "$status" 0
	assert_eq "$(sum_calls "$(bg_out stats)")" "$((500 + made))"
	assert_numbers g ""
	fsn detach g
}

@test "intervals: a reset between two readings never gives a negative number" {
	need_tool jq
	attach_add
	capture "$FIX/call" add 500
	start_bg stats "$FUNCSNOOP" stats g -i 0.2 --json
	poll_until documents stats 1
	fsn reset g
	capture "$FIX/call" add 7
	poll_until documents stats "$(($(wc -l <"$(bg_out stats)") + 2))"
	stop_bg -INT stats
	assert_eq "$(sum_calls "$(bg_out stats)")" 7
	fsn detach g
}

@test "intervals: metrics keep counting, and the file is always complete" {
	local file=$BATS_TEST_TMPDIR/m.prom i

	need_tool promtool
	attach_add
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	start_bg stats "$FUNCSNOOP" stats g -i 0.02 --format openmetrics --output "$file"
	poll_until test -e "$file"
	for ((i = 0; i < 100; i++)); do
		[[ $(tail -n 1 "$file") == '# EOF' ]] || fail "half a file"
	done
	tell calls
	wait_bg calls
	stop_bg stats
	assert_eq "$status" 0
	assert_eq "$(sed -nE 's/^funcsnoop_calls_total\{.*"fix_add".* //p' "$file")" \
		"$(sed -nE 's/^result .* calls=([0-9]+) .*/\1/p' "$(bg_out calls)")"
	assert_eq "$(find "$BATS_TEST_TMPDIR" -name '.m.prom.*')" ""
	fsn detach g
}

@test "intervals: --fail-if stops at the first matching interval" {
	attach_add
	start_bg stats "$FUNCSNOOP" stats g -i 0.1 --fail-if 'calls>=5' --json
	poll_until documents stats 2
	capture "$FIX/call" add 5
	wait_bg -s 3 stats
	assert_stderr_match '^funcsnoop stats: fix_add of g: calls is 5 '
	fsn detach g
}

@test "intervals: detaching the group ends them with an error" {
	attach_add
	start_bg stats "$FUNCSNOOP" stats g -i 0.1 --json
	poll_until documents stats 1
	fsn detach g
	wait_bg -s 1 stats
	assert_stderr_match "no group 'g' is attached"
}

# --- watching ------------------------------------------------------------------------------

tm() {
	tmux -S "$BATS_TEST_TMPDIR/tmux" "$@"
}

screen() {
	tm capture-pane -p -t w
}

screen_has() { # REGEX
	screen | grep -qE -e "$1"
}

start_watch() { # COLUMNS ROWS ARG...
	need_tool tmux
	need_terminal
	tm -f /dev/null new-session -d -s w -x "$1" -y "$2" bash --norc
	tm send-keys -t w "stty -a | tail -n +2 >$BATS_TEST_TMPDIR/before; PS1='prompt> '; $FUNCSNOOP stats ${*:3}; echo status \$?" Enter
}

screen_is_back() {
	[[ $(tm display -p -t w '#{alternate_on}') == 0 ]]
}

end_tmux() {
	tm kill-server 2>/dev/null || true
	poll_until no_tmux
}

no_tmux() {
	! tm list-sessions >/dev/null 2>&1
}

teardown() {
	[[ ! -S $BATS_TEST_TMPDIR/tmux ]] || tm kill-server 2>/dev/null || true
	common_teardown
}

@test "watch: redraws in place, sorts on a key press, follows resizes, and restores all" {
	attach_add
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	capture "$FIX/call" ret 3
	start_watch 100 20 g --watch -i 0.2
	# The first frame, since attach, has other columns.
	poll_until screen_has '^FUNCTION +CALLS/S'
	poll_until screen_has '^fix_add +[0-9]{2,}'
	screen_has '\[total\]' || fail "$(screen)"
	assert_eq "$(screen | grep -c ^FUNCTION)" 1 "one table: it is redrawn"
	screen_has '^fix_ret +0\.0' || fail "what was called before stays: $(screen)"
	tm send-keys -t w n
	poll_until screen_has '\[name\]'
	# Smaller: the lines fit, none is wrapped.
	tm resize-window -t w -x 50 -y 10
	poll_until screen_has '^FUNCTION +CALLS/S.{0,30}$'
	assert_eq "$(screen | grep -c ^fix_add)" 1
	tm resize-window -t w -x 100 -y 20
	tm send-keys -t w q
	poll_until screen_has '^status 0$'
	refute_on_screen() { ! screen_has '^FUNCTION'; }
	refute_on_screen || fail "the frame stays: $(screen)"
	tm send-keys -t w "stty -a | tail -n +2 | diff - $BATS_TEST_TMPDIR/before && echo same" Enter
	poll_until screen_has '^same$'
	assert_eq "$(tm display -p -t w '#{cursor_flag} #{alternate_on} #{wrap_flag}')" "1 0 1"
	end_tmux
	tell calls
	wait_bg calls
	fsn detach g
}

@test "watch: shows processes and codes with a trend, and slow calls" {
	local view

	need_bpf
	cat >"$BATS_TEST_TMPDIR/w.json" <<-END
		{ "w_sym": { "fix_fail": { "symbol": "fix_fail", "ret": "int", "error": "nonzero",
		                           "slow": "0ns" } }, "lib": "$FIX/libfix.so" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/w.json"
	start_bg calls "$FIX/call" --until-line --arg 7 fail
	wait_line calls '^running '
	start_watch 60 20 w --watch -i 0.2 --by process
	poll_until screen_has "^ *[0-9]+ +call .* runs .* [_.:=+*#-]*#[_.:=+*#-]*$"
	screen_has '^ *PID +COMMAND .* TREND' || fail "$(screen)"
	tm send-keys -t w q
	poll_until screen_has '^status 0$'
	for view in errors slow; do
		tm send-keys -t w "clear; $FUNCSNOOP stats w --watch -i 0.2 --$view; echo st\$?" Enter
		if [[ $view == errors ]]; then
			poll_until screen_has '^fix_fail +[0-9]+ +7 +- +[_.:=+*#-]*#'
		else
			poll_until screen_has '^[0-9:.]+ .* fix_fail\('
			! screen_has TREND || fail "slow calls have no rate: $(screen)"
		fi
		tm send-keys -t w q
		poll_until screen_has '^st0$'
	done
	tell calls
	wait_bg calls
	# A line longer than the terminal's width is wrapped.
	tm send-keys -t w "clear; $FUNCSNOOP stats w --watch -i 0.2; echo st\$?" Enter
	poll_until screen_has '(^| )name$'
	screen_has '^20.* q quit  sort \[total\]' || fail "$(screen)"
	tm send-keys -t w q
	poll_until screen_has '^st0$'
	end_tmux
	fsn detach w
}

# Cells of the heat map: a sign between bars.
heat_cells() {
	screen | sed -n 's/^ *[0-9.]* [num]*s |\(.*\)|$/\1/p'
}

heat_has_columns() { # N
	[[ $(heat_cells | head -n 1 | tr -d '\n' | wc -c) -ge $1 ]]
}

@test "intervals: --hist draws durations over time on a terminal" {
	local pid

	need_bpf
	fsn attach g fix_sleep_us --lib "$FIX/libfix.so"
	start_watch 80 24 g --hist -i 0.2
	poll_until screen_has 'no call has returned yet'
	start_bg calls "$FIX/call" --arg 1000 --until-line sleep_us
	wait_line calls '^running '
	poll_until heat_has_columns 5
	screen_has '^fix_sleep_us, at most [0-9]+ a cell$' || fail "$(screen)"
	screen_has '^ 1\.05 ms \|.*#' || screen_has '^ 524 us \|.*#' || screen_has '^ 2\.10 ms \|.*#' ||
		fail "$(screen)"
	# The longest above; each row as many intervals.
	assert_eq "$(heat_cells | awk '{ print length }' | sort -u | wc -l)" 1
	tell calls
	wait_bg calls
	pid=$(pgrep -f -- "^$FUNCSNOOP stats g --hist -i 0.2")
	kill -INT "$pid"
	poll_until screen_has '^status 0$'
	screen_has '^fix_sleep_us, at most ' || fail "the picture is gone: $(screen)"
	end_tmux
	# Elsewhere they follow one another.
	fsn stats g --hist -i 0.1 -d 0.15
	[[ $output != *$'\e'* ]] || fail "escape sequences"
	fsn detach g
}

@test "watch: restores the terminal on Ctrl-C, SIGTERM, Ctrl-Z and errors" {
	local pid

	attach_add
	start_watch 90 20 g --watch -i 0.2
	poll_until screen_has 'no calls yet'
	tm send-keys -t w C-z
	poll_until screen_has 'Stopped'
	assert_eq "$(tm display -p -t w '#{cursor_flag} #{alternate_on}')" "1 0"
	tm send-keys -t w fg Enter
	poll_until screen_has 'no calls yet'
	tm send-keys -t w C-c
	poll_until screen_is_back
	assert_eq "$(tm display -p -t w '#{cursor_flag}')" 1
	tm send-keys -t w "clear; $FUNCSNOOP stats g --watch -i 0.2; echo st=\$?" Enter
	poll_until screen_has 'no calls yet'
	pid=$(pgrep -f -- "^$FUNCSNOOP stats g --watch -i 0.2")
	kill -TERM "$pid"
	poll_until screen_has '^st=0$'
	tm send-keys -t w "clear; $FUNCSNOOP stats g --watch -i 0.2; echo st=\$?" Enter
	poll_until screen_has 'no calls yet'
	fsn detach g
	poll_until screen_has '^st=1$'
	screen_has "no group 'g' is attached" || fail "$(screen)"
	tm send-keys -t w "stty -a | tail -n +2 | diff - $BATS_TEST_TMPDIR/before && echo same" Enter
	poll_until screen_has '^same$'
	end_tmux
}

@test "watch: without a capable terminal, prints one table after the other" {
	attach_add
	start_bg calls "$FIX/call" --until-line add
	wait_line calls '^running '
	fsn stats g --watch -i 0.1 -d 0.35
	assert_between "$(grep -c '^FUNCTION  CALLS/S' <<<"$output")" 1 4
	[[ $output != *$'\e'* ]] || fail "escape sequences"
	need_terminal
	capture env TERM=dumb script -qec "'$FUNCSNOOP' stats g --watch -i 0.1 -d 0.35" /dev/null
	[[ $output != *$'\e'* ]] || fail "escape sequences on a dumb terminal"
	assert_output_match '^fix_add +[0-9]+'
	tell calls
	wait_bg calls
	fsn detach g
}

# Begun in an odd second, so that by itself the interval would begin in one.
@test "intervals: whole seconds are aligned to multiples" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	poll_until eval '((EPOCHSECONDS % 2))'
	fsn stats g -i 2 -d 2 --json
	assert_eq "${#lines[@]}" 1 "intervals"
	assert_json '.[0].since | fromdate % 2' 0
	fsn detach g
}
