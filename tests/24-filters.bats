# SPDX-License-Identifier: BSD-2-Clause
# Which calls count: those of users, of threads, with such arguments, until a time has passed.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

setup() {
	common_setup
	need_bpf
	need_tool jq
	typed_config t ty_i8 ty_u16 ty_i32 ty_u64 ty_bool ty_code ty_ptr ty_void ty_text ty_stack \
		ty_double
}

# Calls of GROUP's functions that were.
called() { # GROUP
	fsn stats "$1" --json
	json '[.[].functions[] | select(.calls > 0) | [.name, .calls]] | sort'
}

# Calls FUNCTION with WORDs: how many of them count for group g.
counts() { # FUNCTION WORD...
	fsn reset g
	capture "$FIX/typed" "$@"
	fsn stats g --json
	assert_json '[.[].functions[] | .returns == .calls] | all' true
	assert_json '.[0].health.unmatched_returns' 0
	assert_eq "$(json '[.[].functions[].calls] | add // 0')" "$want" "$cond"
}

# The same with that condition, set or attached with.
chosen() { # WANT COND FUNCTION WORD...
	local want=$1 cond=$2

	fsn set g --if "$2"
	counts "${@:3}"
}

attached() { # WANT COND FUNCTION WORD...
	local want=$1 cond=$2

	fsn attach --config "$CONFIG" t --name g --if "$2" --quiet
	counts "${@:3}"
	fsn detach g
}

# --- conditions on arguments ------------------------------------------------------------------

@test "filters: --if compares arguments by their declared types" {
	attached 2 'v < 0' ty_i8 0xffffffffffffff85 0x7f 0xdeadbeef00000080
	attached 2 'v == tyNegative' ty_code 0xffffffff 0xffffffffffffffff 2
	attached 1 'text == "abc"' ty_text abc ab abcd '' @null @bad
	attached 1 'a == 1 && small == -123 && code == tyBad && text == "on the stack"' ty_stack
}

@test "filters: comparisons are exact, for numbers with signs, 0x, K, M and G of 1024" {
	local at=1048576

	fsn attach --config "$CONFIG" t --name g
	chosen 2 'v >= 1M' ty_u64 $((at - 1)) $at $((at + 1))
	chosen 1 'v > 1024K' ty_u64 $((at - 1)) $at $((at + 1))
	chosen 2 'v<=0x100000' ty_u64 $((at - 1)) $at $((at + 1))
	chosen 1 'v < 1M' ty_u64 $((at - 1)) $at $((at + 1))
	chosen 1 'v == 1M' ty_u64 $((at - 1)) $at $((at + 1))
	chosen 2 'v != 1M' ty_u64 $((at - 1)) $at $((at + 1))
	chosen 1 'v == 0xffffffffffffffff' ty_u64 0xffffffffffffffff 0
	chosen 1 'n >= -1G' ty_i32 $((-1 << 30)) $((-(1 << 30) - 1))
	chosen 2 'v < 0' ty_i8 0xffffffffffffff85 0x7f 0xdeadbeef00000080
	chosen 2 'v >= 65535' ty_u16 0xffffffffffffffff 0xfffe 0xffff
	chosen 2 'v == tyNegative' ty_code 0xffffffff 0xffffffffffffffff 2
	chosen 2 'v == true' ty_bool 1 0 0xff01
	chosen 2 'v != NULL' ty_ptr 1 0 0xffff000000000000
	fsn detach g
}

@test "filters: text is compared up to 31 bytes; unreadable text matches nothing" {
	local long=a234567890123456789012345678901

	fsn attach --config "$CONFIG" t --name g
	chosen 1 'text == "abc"' ty_text abc ab abcd '' @null @bad
	chosen 3 'text != "abc"' ty_text abc ab abcd '' @null @bad
	chosen 1 "text == \"$long\"" ty_text "$long" "${long}x" "${long%?}"
	chosen 1 'text == ""' ty_text '' a @null
	chosen 1 'text == "a\"\\b"' ty_text 'a"\b' 'a"'
	chosen 1 'text == NULL' ty_text @null a
	fsn detach g
}

@test "filters: calls whose text is not in memory are not counted, and stats reports them" {
	need_tool jq
	fsn attach --config "$CONFIG" t --name g --if 'text == "abc"'
	capture "$FIX/typed" ty_text abc ab @bad @null @absent
	fsn stats g --json
	assert_json '.[0] | [(.functions[] | select(.calls > 0) | [.name, .calls]), .health.lost_conditions]' \
		'[["ty_text",1],2]'
	fsn stats g
	assert_stderr_match '^funcsnoop stats: 2 calls were not counted: the text that --if compares was not in memory'
	fsn stats g --reset
	capture "$FIX/typed" ty_text abc @absent
	fsn stats g --json
	assert_json '[.[0].functions[0].calls, .[0].health.lost_conditions]' '[1,1]'
	fsn detach g
}

# bats test_tags=arch
@test "filters: four terms must all hold, stack arguments included" {
	local all='a == 1 && small == -123 && code == tyBad && text == "on the stack"'

	fsn attach --config "$CONFIG" t --name g
	chosen 1 "$all" ty_stack
	chosen 0 "${all/a == 1/a == 2}" ty_stack
	chosen 0 "${all/-123/-122}" ty_stack
	chosen 0 "${all/Bad/Negative}" ty_stack
	chosen 0 "${all/on the/in the}" ty_stack
	fsn detach g
}

@test "filters: undeclared arguments are selected by number" {
	fsn attach g fix_add --lib "$LIB" --if 'arg1 == 3 && arg2 >= 50'
	capture "$FIX/call" --arg 1,2,3,4 add 100
	assert_eq "$(called g)" '[["fix_add",13]]'
	fsn detach g
	fsn attach g fix_str --lib "$LIB" --if 'arg1 == "xyz"'
	capture "$FIX/call" --arg xyz str 7
	capture "$FIX/call" --arg xy str 7
	assert_eq "$(called g)" '[["fix_str",7]]'
	fsn detach g
}

# bats test_tags=bpf
@test "filters: all kinds of links and exits, and --count, select the same calls" {
	local link links how

	read_links
	for link in "${links[@]}"; do
		for how in '--exit return' '--exit ret' --count; do
			# shellcheck disable=SC2086	# two words
			fsn attach g fix_add fix_recurse --lib "$LIB" --link "$link" $how --if 'arg1 == 2'
			capture "$FIX/call" --arg 1,2,3,4,5 add 100
			capture "$FIX/call" --arg 6 recurse 3
			assert_eq "$(called g)" '[["fix_add",20],["fix_recurse",3]]' "$link $how"
			fsn detach g
		done
	done
}

@test "filters: --count with --if probes before instructions that write arguments" {
	local all=(g '*' --lib "$FIX/libinsn.so" --dry-run --json) sites

	need_arch x86_64
	for sites in --count "--count --if arg1!=99" "--exit none --if arg1!=99"; do
		# shellcheck disable=SC2086	# several words
		fsn attach "${all[@]}" $sites
		json '[.[0].functions[] | [.name, .site_offset]]' >"$BATS_TEST_TMPDIR/${sites//[^a-z]/}"
	done
	cd "$BATS_TEST_TMPDIR"
	cmp countifarg exitnoneifarg
	! cmp -s count countifarg || fail "nothing of the library shows it"
}

@test "filters: a call rejected by --if abandons a stale call, for all links and exits" {
	local link links exit left

	read_links
	for link in "${links[@]}"; do
		for exit in return ret; do
			fsn attach g eng_longjmp --lib "$FIX/libengine.so" --link "$link" \
				--exit "$exit" --if 'arg1 != 0'
			start_bg "e$link$exit" "$FIX/engine" longjmp_return 50 --wait-end
			wait_line "e$link$exit" "^done "
			fsn stats g --json
			left='[50,0,50,0]'
			[[ $link$exit != sessionreturn ]] || left='[50,0,49,1]'
			assert_json '.[0].functions[0] | [.calls, .returns, .abandoned, .in_flight]' \
				"$left"
			tell "e$link$exit"
			wait_bg "e$link$exit"
			fsn detach g
		done
	done
}

@test "filters: --if warns about functions without the argument and counts no call" {
	fsn attach --config "$CONFIG" t --name g --if 'n == 1'
	assert_stderr_match 'no call of 10 of the 11 functions counts: they lack an argument of --if'
	capture "$FIX/typed" ty_i32 1 2
	capture "$FIX/typed" ty_i8 1 2
	assert_eq "$(called g)" '[["ty_i32",1]]'
	fsn detach g
}

# Wrong usage, with the place in the text.
refused() { # COND PLACE MESSAGE
	fsn -s 2 attach --config "$CONFIG" t --if "$1" --dry-run
	assert_stderr_match "--if '.*', character $2: $3"
}

@test "filters: an invalid condition is wrong usage, with its position" {
	refused 'v == 1 && nosuch > 3' 11 "no function has an argument 'nosuch'"
	refused 'text > 3' 8 "'text' is text, which is compared with"
	refused 'v == "x"' 6 "'v' is not text"
	refused 'text < "x"' 6 'text is compared by == and != only'
	refused 'v==1 && v==2 && v==3 && v==4 && v==5' 33 'more than 4 terms'
	refused 'v = 1' 3 'one of == != < <= > >= is missing here'
	refused 'v == ' 6 'expected a number'
	refused 'v == 1 v == 2' 8 '&& or the end is missing here'
	refused '' 1 "an argument's name is missing here"
	refused 'v == 99999999999999999999' 6 'the number is too large'
	refused 'v == 16777216T' 6 'expected a number'
	refused 'v == 17179869184G' 6 'the number is too large'
	refused 'text == "x' 9 'the text has no end'
	refused 'text == "a2345678901234567890123456789012"' 9 'the text is longer than 31 bytes'
	refused 'v == tyNothing' 6 "'v' has no value 'tyNothing'"
	refused 'x > 1' 1 "'x' is a floating point number"
	refused 'n == 1 && x == 2' 11 "'x' is a floating point number"
	refused 'n == 1 && text == "a"' 1 'no function has all of these arguments'
	fsn -s 2 attach g fix_add --lib "$LIB" --if 'size > 3' --dry-run
	assert_stderr_match "character 1: no argument 'size' is known"
	assert_stderr_match 'hint: .*arg1 to arg[68]'
	fsn -s 2 attach g fix_add --lib "$LIB" --if 'arg1 > 3' --if 'arg2 > 3' --dry-run
	fsn -s 2 run --config "$CONFIG" t --if 'nosuch > 3' -- touch "$BATS_TEST_TMPDIR/ran"
	[[ ! -e $BATS_TEST_TMPDIR/ran ]]
}

@test "filters: run --if counts only matching calls of COMMAND" {
	fsn run "$LIB:fix_add" --if 'arg1 == 2' -- "$FIX/call" --arg 1,2 add 10
	assert_stderr_match '^fix_add +5 '
}

# --- users and threads ------------------------------------------------------------------------

@test "filters: --uid counts only calls of that user's processes" {
	need_tool setpriv
	fsn attach g fix_add --lib "$LIB" --uid nobody
	fsn attach r fix_add --lib "$LIB" --uid 0 --uid 4711
	capture setpriv --reuid nobody --clear-groups "$FIX/call" add 5
	capture setpriv --reuid 4711 --clear-groups "$FIX/call" add 3
	capture "$FIX/call" add 20
	assert_eq "$(called g) $(called r)" '[["fix_add",5]] [["fix_add",23]]'
	fsn detach g r
	fsn -s 2 attach g fix_add --lib "$LIB" --uid no-such-user
	assert_stderr_match "^funcsnoop attach: --if uid: there is no user 'no-such-user'"
}

@test "filters: --tid counts one thread, and its process gives the library" {
	local pid tids

	start_bg w "$FIX/call" --threads 3 --until-line add
	wait_line w '^running '
	pid=$(bg_pid w)
	poll_until eval '(($(ls /proc/'"$pid"'/task | wc -l) == 4))'
	mapfile -t tids < <(ls "/proc/$pid/task")
	fsn attach g fix_add --lib fix --tid "${tids[2]}"
	fsn stream g --json -n 20
	assert_eq "$(jq -s -c 'map(.tid) | unique' <<<"$output")" "[${tids[2]}]"
	fsn detach g
	tell w
	wait_bg w
	fsn -s 2 attach g fix_add --lib "$LIB" --tid $$ --pid $$ --children
	assert_stderr_match 'threads have no children: --pid PID\+ cannot be combined with tid'
	fsn -s 1 attach g fix_add --lib "$LIB" --tid 4194304
	assert_stderr_match 'there is no thread 4194304'
	fsn -s 2 run "$LIB:fix_add" --tid $$ -- true
}

# --- set ----------------------------------------------------------------------------------------

@test "filters: in a pid namespace, --pid is rejected" {
	local within=(unshare --pid --fork --mount-proc sh -c '"$@"; exit $?' sh "$FUNCSNOOP")
	local why='processes have other numbers in this pid namespace'

	unshare --pid --fork --mount-proc true || skip "no pid namespace can be made"
	capture -s 1 "${within[@]}" attach g fix_add --lib "$LIB" --pid 1
	assert_stderr_match "$why"
	capture -s 1 "${within[@]}" attach g fix_add --lib "$LIB" --pid 1 --tid 1
	assert_stderr_match "$why"
	capture -s 125 "${within[@]}" run "$LIB:fix_add" -- "$FIX/call" add 5
	assert_stderr_match "$why"
	assert_output ""
	fsn attach g fix_add --lib "$LIB"
	capture -s 1 "${within[@]}" set g --pid 1
	assert_stderr_match "$why"
	capture -s 1 "${within[@]}" stream g --pid 1
	assert_stderr_match "$why"
	capture "$FIX/call" add 3
	capture "${within[@]}" stats g --json
	assert_json '[.[].functions[].calls]' '[3]'
	fsn detach g
}

@test "filters: set changes users and the condition, and an error changes nothing" {
	need_tool setpriv
	fsn attach g fix_add --lib "$LIB"
	fsn set g --if 'arg1 == 1'
	capture "$FIX/call" --arg 1,2 add 10
	assert_eq "$(called g)" '[["fix_add",5]]'
	fsn -s 2 set g --if 'arg1 == 2' --if 'arg1 == 3'
	fsn -s 2 set g --uid nobody --if 'nosuch == 2'
	assert_stderr_match "character 1: no argument 'nosuch'"
	fsn set g --if 'arg1 == 2 && arg2 < 4' --uid 0
	capture "$FIX/call" --arg 1,2 add 10
	capture setpriv --reuid nobody --clear-groups "$FIX/call" --arg 2 add 3
	assert_eq "$(called g)" '[["fix_add",7]]'
	fsn set g --if all --uid all
	capture setpriv --reuid nobody --clear-groups "$FIX/call" --arg 2 add 3
	assert_eq "$(called g)" '[["fix_add",10]]'
	fsn detach g
}

@test "filters: calls that meet both the old and the new condition of a set are all counted" {
	local cond

	need_no_sanitizer
	fsn attach g fix_add --lib "$LIB" --if 'arg1 == 1'
	start_bg call "$FIX/call" --wait --until-line --arg 1 add
	wait_ready call
	tell call
	wait_line call "^running "
	for cond in 'arg1 > 0' 'arg1 < 2 && arg2 >= 0' 'arg1 == 1' all 'arg1 != 2' 'arg2 >= 0'; do
		fsn set g --if "$cond"
	done
	tell call
	wait_bg call
	assert_eq "$(called g)" \
		"[[\"fix_add\",$(sed -n 's/^result .* calls=\([0-9]*\).*/\1/p' <<<"$output")]]"
	fsn detach g
}

# --- until when ---------------------------------------------------------------------------------

ended() { # GROUP
	[[ ! -e $FUNCSNOOP_BPFFS/funcsnoop/$1 ]]
}

@test "attach --for: its breakpoints, pins and helper disappear at the end" {
	fsn attach g fix_add --lib "$LIB" --for 1500ms
	capture "$FIX/call" add 5
	assert_eq "$(called g)" '[["fix_add",5]]'
	poll_until ended g
	poll_until holds_only ""
	fsn -s 2 attach g fix_add --lib "$LIB" --for 0s
	fsn -s 2 attach g fix_add --lib "$LIB" --for 10
	assert_stderr_match '--for: '
	fsn -s 2 run "$LIB:fix_add" --for 10s
}

@test "attach --for: its helper exits when the group is detached or replaced" {
	fsn attach g fix_add --lib "$LIB" --for 3600s
	fsn attach h fix_add --lib "$LIB" --for 3600s
	poll_until waiting 2
	fsn detach h
	poll_until waiting 1
	fsn attach g fix_add --lib "$LIB" --replace
	poll_until waiting 0
	capture "$FIX/call" add 5
	assert_eq "$(called g)" '[["fix_add",5]]'
	fsn detach g
}

# Only the test's own: there may be others on this machine.
waiting() { # CNT
	local file cnt=0

	for file in /proc/[0-9]*/environ; do
		[[ $(cat "${file%environ}comm" 2>/dev/null) == funcsnoop-for ]] || continue
		! grep -qzF "FUNCSNOOP_BPFFS=$FUNCSNOOP_BPFFS" "$file" 2>/dev/null || {
			cnt=$((cnt + 1))
			WAITS=${file//[^0-9]/}
		}
	done
	[[ $cnt == "$1" ]]
}

@test "attach --for: without its helper the group stops in time, and is removed later" {
	need_tool bpftool
	fsn attach g fix_add --lib "$LIB" --for 8s
	capture "$FIX/call" add 5
	poll_until waiting 1
	kill -KILL "$WAITS"
	assert_eq "$(called g)" '[["fix_add",5]]'
	start_bg call "$FIX/call" --until-line add
	wait_line call '^running '
	poll_until -t 40 stopped_at "$FUNCSNOOP_BPFFS/funcsnoop/g/stats"
	[[ -e $FUNCSNOOP_BPFFS/funcsnoop/g ]] || fail "somebody has removed it"
	fsn list --json
	assert_json . '[]'
	ended g
	tell call
	wait_bg call
}

# True if these calls are not counted. A funcsnoop command would remove the group.
stopped_at() { # PIN
	local before

	before=$(calls_at "$1")
	sleep 0.05
	[[ $(calls_at "$1") == "$before" ]]
}

@test "run: a killed run without its helper stops counting, and the next command removes it" {
	local g

	need_tool bpftool
	start_bg r "$FUNCSNOOP" run g fix_add --lib "$LIB" -- "$FIX/call" --until-line add
	wait_line r '^running '
	poll_until keeps
	kill -STOP "$KEEPS"
	kill -KILL "$KEEPS" "$(bg_pid r)"
	g=$(echo "$FUNCSNOOP_BPFFS"/funcsnoop/g-*)
	poll_until -t 20 stopped_at "$g/stats"
	[[ -e $g ]] || fail "somebody has removed it"
	fsn list --json
	assert_json . '[]'
	[[ ! -e $g ]] || fail "it is still there"
	tell r
	poll_until bg_says r '^result fix_add '
	wait_bg -s 137 r
}

keeps() {
	local file

	for file in /proc/[0-9]*/environ; do
		[[ $(cat "${file%environ}comm" 2>/dev/null) == funcsnoop-keep ]] || continue
		! grep -qzF "FUNCSNOOP_BPFFS=$FUNCSNOOP_BPFFS" "$file" 2>/dev/null || {
			KEEPS=${file//[^0-9]/}
			return 0
		}
	done
	return 1
}
