# SPDX-License-Identifier: BSD-2-Clause
# System calls are targets like functions, with exact counts for any number of threads.
# bats file_tags=bpf

load helpers
load stream

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# Runs `syscalls WHAT...` with these CALLS traced from its exec on; $output is the document. Kernels
# from 7.0 on preempt programs at system calls, and skip those of other threads of any process
# meanwhile: such a run says so ("missed"), and is done again.
ran() { # CALLS WHAT...
	local calls i
	read -ra calls <<<"$1"
	for i in {1..10}; do
		capture "$FUNCSNOOP" run "${calls[@]}" --format json -o "$BATS_TEST_TMPDIR/run.json" \
			--quiet -- "$FIX/syscalls" "${@:2}"
		output=$(<"$BATS_TEST_TMPDIR/run.json")
		[[ $(uname -r) == [7-9].* && $(json '.[0].health.missed') != 0 ]] || break
	done
}

# NAME CALLS RETURNS ERRORS of each function called; nothing is in flight or abandoned.
assert_ran() { # TEXT
	assert_eq "$(json '.[0].functions | sort_by(.name) | .[] | select(.calls > 0)
		| [.name, .calls, .returns // "-", .errors // "-"] | map(tostring) | join(" ")')" "$1"
	assert_json '[.[0].functions[] | .in_flight + .abandoned] | add // 0' 0
	assert_json '.[0].health | del(.unmatched_returns) | with_entries(select((.value // 0) != 0)) | tojson' '{}'
}

# bats test_tags=bpf,core,arch
@test "syscalls: all calls of threads, children and executed programs are counted" {
	ran 's:getppid s:fsync s:exit s:exit_group' threads 1000 16
	assert_ran 'exit 16 - -
exit_group 1 - -
fsync 16000 16000 16000
getppid 16000 16000 0'
	ran 's:getppid s:fsync s:clone s:exit_group s:execve' children 100 20
	assert_ran 'clone 20 20 0
execve 1 1 0
exit_group 21 - -
fsync 2000 2000 2000
getppid 2000 2000 0'
	ran 's:execve s:exit_group' exec 5
	assert_ran 'execve 12 12 6
exit_group 1 - -'
	ran 's:execve s:exit_group' exec-thread 5
	assert_ran 'execve 12 12 6
exit_group 1 - -'
}

@test "syscalls: run counts calls of COMMAND, none from before its start" {
	ran 's:read s:execve s:getppid' threads 1 1
	assert_json '.[0].health.unmatched_returns' 0
	assert_json '.[0].functions[] | select(.name == "execve" or .name == "getppid") | [.name, .calls, .returns]' \
		'["execve",1,1]
["getppid",1,1]'
}

@test "syscalls: an interrupted call returns, and its restart is a new call" {
	ran 's:readv s:tgkill s:rt_sigreturn' restart 9
	assert_ran 'readv 10 10 9
rt_sigreturn 9 9 0
tgkill 9 9 0'
	assert_json '.[0].functions[] | select(.name == "readv").return_codes' \
		'[{"code":-512,"count":9,"name":"ERESTARTSYS"}]'
}

# The time of futex:wait is within the bounds that the program has measured.
assert_waited() { # WHAT...
	local least most

	capture "$FUNCSNOOP" run s:futex:wait s:restart_syscall s:getppid --format json \
		-o "$BATS_TEST_TMPDIR/run.json" --quiet -- "$FIX/syscalls" "$@"
	read -r _ least most < <(grep '^waited' <<<"$output")
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	assert_json ".[0].functions[] | select(.name == \"futex:wait\")
		| .total_ns >= $least and .total_ns <= $most" true "$least to $most ns"
}

@test "syscalls: a wait with a time limit is one call, also if the process was stopped" {
	assert_waited stopped 3
	assert_ran 'futex:wait 1 1 0
restart_syscall 3 3 2'
	ran s:futex:wait stopped 3
	assert_ran 'futex:wait 1 1 0'
}

@test "syscalls: a wait with a time limit ends before a signal's handler, or when it is killed" {
	assert_waited interrupted 1
	assert_json '.[0].functions[] | select(.name == "futex:wait") | [.calls, .returns, .in_flight, .return_codes]' \
		'[2,2,0,[{"code":-516,"count":2,"name":"ERESTART_RESTARTBLOCK"}]]'
	ran s:futex:wait killed 1
	assert_ran 'futex:wait 2 2 2'
}

@test "syscalls: 32-bit calls have rows of their own, and are not taken for 64-bit calls" {
	[[ $(uname -m) == x86_64 ]] || skip "numbers of 32-bit calls are known on x86-64"
	"$FIX/syscalls" 32bit 1 || skip "no 32-bit calls on this machine"
	ran 's:32:getpid s:writev s:32:writev' 32bit 7
	assert_ran '32:getpid 7 7 0'
}

@test "syscalls: counts match strace" {
	local st=$BATS_TEST_TMPDIR/strace calls=(openat close read fstat mmap execve vfork clone wait4)
	local script="cat /etc/passwd; ls /nonexistent; (exit 3); cat /etc/passwd | wc -l"

	need_tool strace
	capture strace -f -c -U name,calls,errors -o "$st" sh -c "$script"
	capture "$FUNCSNOOP" run "${calls[@]/#/s:}" --format json -o "$BATS_TEST_TMPDIR/run.json" \
		--quiet -- sh -c "$script"
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	assert_eq "$(json '.[0].functions | sort_by(.name) | .[] | select(.calls > 0)
		| [.name, .calls, .errors] | map(tostring) | join(" ")')" \
		"$(awk -v "of=${calls[*]}" 'BEGIN { n = split(of, w); while (n) is[w[n--]] = 1 }
			$1 in is { print $1, $2, $3 + 0 }' "$st" | sort)"
}

@test "syscalls: calls ended by the process's exit count, unlike in strace" {
	local st=$BATS_TEST_TMPDIR/strace

	ran 's:readv s:exit_group' ended 16
	assert_ran 'exit_group 1 - -
readv 16 16 16'
	assert_json '.[0].functions[] | select(.name == "readv").return_codes' \
		'[{"code":-512,"count":16,"name":"ERESTARTSYS"}]'
	need_tool strace
	capture strace -f -c -U name,calls -o "$st" "$FIX/syscalls" ended 16
	assert_eq "$(grep -c readv "$st")" 0
}

@test "syscalls: calls in progress at the attach do not count, later ones are in flight" {
	start_bg fix "$FIX/syscalls" --wait --wait-end threads 5 1
	wait_ready fix
	fsn attach g s:read s:getppid -p "$(bg_pid fix)"
	tell fix
	wait_line fix '^done '
	poll_until eval "$FUNCSNOOP list inflight g --json | jq -e 'length == 1'"
	fsn list inflight g --json
	assert_json '.[0] | [.function, .pid, .tid, .stale]' \
		"[\"read\",$(bg_pid fix),$(bg_pid fix),false]"
	fsn reset g
	assert_numbers g "read 0 1 0 1 0 0"
	tell fix
	wait_bg fix
	assert_numbers g "read 0 1 1 0 0 0"
	fsn detach g
}

@test "syscalls: a return of an earlier call is unmatched; a killed call returns" {
	start_bg fix "$FIX/syscalls" --wait --wait-end threads 5 1
	wait_ready fix
	fsn attach g s:read s:getppid s:fsync -p "$(bg_pid fix)"
	tell fix
	wait_line fix '^done '
	poll_until eval "$FUNCSNOOP list inflight g --json | jq -e 'length == 1'"
	stop_bg -KILL fix
	assert_numbers g "fsync 5 0 5 0 0 0
getppid 5 0 5 0 0 0
read 1 0 1 0 0 0
unmatched_returns 1"
	fsn detach g
}

@test "syscalls: one group has system calls and functions, with correct nesting" {
	fsn attach g s:write fix_add --lib "$FIX/libfix.so"
	fsn list g --json
	assert_json '.[0].libraries' "[\"$(realpath "$FIX/libfix.so")\",\"[syscalls]\"]"
	assert_json_true '.[0].link | test("^(session|multi|perf)[+]trace$")'
	capture "$FIX/call" add 3
	fsn stats g --json
	assert_json '.[0].functions[] | select(.name == "fix_add").calls' 3
	assert_json_true '.[0].functions[] | select(.name == "write").calls > 0'
	fsn list functions g --json
	assert_json '[.[0].functions[] | [.name, .kind, .library == "[syscalls]", .offset == null]]' \
		'[["fix_add","function",false,false],["write","syscall",true,true]]'
	fsn detach g
}

# bats test_tags=bpf,core
@test "syscalls: arguments have kernel names, paths are text, results have errno names" {
	need_tracefs
	start_bg fix "$FIX/syscalls" --wait absent "$BATS_TEST_TMPDIR/path"
	printf /nonexistent/folder >"$BATS_TEST_TMPDIR/path"
	wait_ready fix
	fsn attach g s:chdir s:openat -p "$(bg_pid fix)"
	start_stream s g --json
	tell fix
	wait_bg fix
	stop_stream s
	assert_eq "$(json 'select(.type == "call") | [.function, .args, .ret, .ret_name, .failed]')" \
		"[\"openat\",{\"dfd\":\"AT_FDCWD\",\"filename\":\"$BATS_TEST_TMPDIR/path\",\"flags\":\"O_RDONLY|O_CLOEXEC\",\"mode\":\"0\"},3,null,false]
[\"chdir\",{\"filename\":\"/nonexistent/folder\"},-2,\"ENOENT\",true]"
	fsn detach g
}

@test "syscalls: paths have 256 bytes each, also if not in memory at the entry" {
	local n what text long program=$BATS_TEST_TMPDIR/own-paths

	need_tracefs
	cp "$FIX/syscalls" "$program"
	long=/nonexistent/$(printf '%0300d' 0)
	fsn attach g s:chdir s:renameat2 --slow 1ns --comm own-paths
	for n in 255 256 257; do
		printf %s "${long:0:n}" >"$BATS_TEST_TMPDIR/path"
		for what in absent absent-both; do
			capture "$program" "$what" "$BATS_TEST_TMPDIR/path"
		done
		text+=${text:+$'\n'}${long:0:n > 256 ? 256 : n}
	done
	fsn stats g --slow --json
	assert_eq "$(json '.[0].slow_calls[].args | .filename // empty')" "$text"
	assert_eq "$(json '.[0].slow_calls[].args | .oldname // empty')" "$text"
	assert_eq "$(json '.[0].slow_calls[].args | .newname // empty')" "$text"
	start_stream s g --json
	capture "$program" absent-both "$BATS_TEST_TMPDIR/path"
	stop_stream s
	assert_eq "$(json 'select(.type == "call").args | .oldname, .newname')" \
		"${long:0:256}
${long:0:256}"
	fsn detach g
}

@test "syscalls: --if, --count, --sample, --slow and --comm work as for functions" {
	need_tracefs
	ran 's:fsync --if fd>100' threads 10 2
	assert_ran 'fsync 20 20 20'
	ran 's:fsync --if fd<100' threads 10 2
	assert_ran ''
	ran 's:getppid --count' threads 10 2
	assert_json '.[0].functions[] | [.calls, .returns, .untimed]' '[20,null,20]'
	ran 's:getppid --sample 5' threads 50 2
	# One of five on each CPU, where a block of five may be cut at the end.
	assert_json '.[0].functions[] | [.calls, .returns + .untimed, .returns >= 18 and .returns <= 22]' '[100,100,true]'
	ran 's:getppid --slow 0ns' threads 10 2
	assert_json '.[0].functions[] | [.calls, .slow]' '[20,20]'
	ran 's:getppid --comm nobody' threads 10 2
	assert_ran ''
}

@test "syscalls: overhead is calibrated and estimated like that of functions" {
	local figures=/run/funcsnoop/syscalls

	own_run
	fsn attach g s:getppid -p $$
	# The programs at the entry do not measure their run time.
	grep -qE '^2-[0-9a-f]{16} at [0-9]+: [1-9][0-9]* [1-9][0-9]* 0 [1-9][0-9]*$' "$figures" ||
		fail "what is kept: $(<"$figures")"
	fsn list --json
	assert_json_true '.[0].cost_ns_per_s != null'
	fsn detach g
	sed -i 's/:.*/: 100 1000 0 0/' "$figures"
	# Those of others pay, too.
	ran 's:fsync' threads 10 2
	assert_json_true '.[0].functions[].cost_ns | . >= 20000 and . % 1000 == 0'
	ran 's:fsync --count' threads 10 2
	assert_json_true '.[0].functions[].cost_ns | . >= 2000 and . < 20000 and . % 100 == 0'
}

@test "syscalls: 'set --pid' moves a group to another process and ends its calls" {
	start_bg one "$FIX/syscalls" --wait threads 10 1
	start_bg two "$FIX/syscalls" --wait threads 20 1
	wait_ready one
	wait_ready two
	fsn attach g s:getppid s:read -p "$(bg_pid one)"
	fsn set g --pid "$(bg_pid two)"
	tell one
	tell two
	wait_bg one
	wait_bg two
	fsn stats g --json
	assert_json '.[0].functions[] | select(.name == "getppid") | [.calls, .returns]' '[20,20]'
	assert_json '[.[0].functions[] | .in_flight] | add' 0
	fsn detach g
}

@test "syscalls: all calls of all processes are counted, by process" {
	local pid

	fsn attach g 's:*'
	start_bg w "$FIX/syscalls" --wait threads 100 4
	pid=$(bg_pid w)
	wait_ready w
	tell w
	wait_bg w
	fsn stats g --by process --all --json
	assert_json "[.[0].functions[] | select(.name == (\"getppid\", \"fsync\")) | .name as \$name |
		.processes[] | select(.pid == $pid) | [\$name, .calls, .errors]] | sort" \
		'[["fsync",400,400],["getppid",400,0]]'
	fsn detach g
}

@test "syscalls: suggests similar names" {
	fsn -s 1 attach g s:opennat
	assert_stderr "funcsnoop attach: no system call 'opennat'
hint: did you mean 's:openat'"
	fsn -s 1 attach g 's:nothing*'
	assert_stderr "funcsnoop attach: no system call 'nothing*'"
	fsn attach g syscalls:openat -n --json
	assert_json '.[0].functions[] | [.name, .kind]' '["openat","syscall"]'
	fsn attach g syscall:sys_openat -n --json
	assert_json '.[0].functions[] | [.name, .kind]' '["openat","syscall"]'
	fsn attach g -r 's:^(open|creat$)' -n --json
	assert_json '[.[0].functions[].name]' '["creat","open","open_by_handle_at","open_tree","openat","openat2"]'
	fsn attach g 's:*' --comm nobody
	fsn detach g
	fsn list
	assert_output ''
}

@test "syscalls: attach warns if another group counts the same calls" {
	fsn attach g s:getppid s:fsync
	assert_stderr ""
	fsn attach h s:getppid s:readv
	assert_stderr_match "1 of the functions of 'h' is probed by group 'g', too"
	fsn attach i s:tgkill
	assert_stderr ""
	fsn detach g h i
}

@test "syscalls: the preset files shows opened, renamed and removed files with paths" {
	local dir=$BATS_TEST_TMPDIR

	start_bg run "$FUNCSNOOP" run files --stream --json -o "$dir/out" -- \
		sh -c ": >$dir/a; mv $dir/a $dir/b; rm $dir/b; cat $dir/c"
	wait_bg -s 1 run
	output=$(<"$dir/out")
	assert_eq "$(json --arg dir "$dir/" 'select(.type == "call" and (.args | tojson | contains($dir)))
		| select(.function | test("stat|access") | not)
		| [.function, (.args | to_entries[] | select(.value | tostring | startswith($dir)).value[($dir | length):]),
			.ret_name] | map(. // "-") | join(" ")')" 'openat a -
renameat2 a b -
unlinkat b -
openat c ENOENT'
}

@test "syscalls: the table of the preset files names the paths whose calls failed" {
	local dir=$BATS_TEST_TMPDIR i

	cd "$dir"
	capture "$FUNCSNOOP" run files -o "$dir/out" -- sh -c "for i in 1 2 3; do
		for k in 1 2 3 4 5 6; do test -r <no\$k; done; done 2>/dev/null; test -r <no3; true"
	output=$(<"$dir/out")
	assert_output_match '^failed: '
	assert_eq "$(sed -n '/^failed: /,$s/^  //p' <<<"$output" | head -1)" "openat 4: no3"
	assert_output_match '^  openat 3: no1$'
	assert_output_match '^  and [0-9]+ more paths: --by path$'
	capture "$FUNCSNOOP" run files --by path -o "$dir/out" -- sh -c 'test -r <no3; mkdir new'
	output=$(<"$dir/out")
	assert_output_match '^FUNCTION +PATH '
	assert_output_match '^openat +no3 '
	assert_output_match '^mkdir +new '
	capture "$FUNCSNOOP" run files -o "$dir/out" -- sh -c 'test -r <a_name_of_more_than_thirty_two_bytes; true'
	output=$(<"$dir/out")
	assert_output_match '^  openat 1: a_name_of_more_than_thirty_two_\.\.\.$'
	assert_output_match '^  --stream --only failed prints whole paths$'
}

@test "syscalls: the preset syscalls matches strace, and FUNCTIONs select from it" {
	local st=$BATS_TEST_TMPDIR/strace

	need_tool strace
	capture strace -f -c -U name,calls,errors -o "$st" sh -c 'ls /; ls /nonexistent; true'
	capture "$FUNCSNOOP" run syscalls --format json -o "$BATS_TEST_TMPDIR/run.json" --quiet -- \
		sh -c 'ls /; ls /nonexistent; true'
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	# brk(2) and similar calls of a shell depend on its address; strace does not count an
	# exit.
	assert_eq "$(json '.[0].functions | sort_by(.name) | .[] | select(.calls > 0)
		| [.name, .calls, .errors] | map(tostring) | join(" ")' | grep -vE '^(brk|exit_group|read|rt_sigreturn) ')" \
		"$(awk '$2 ~ /^[0-9]+$/ && $1 !~ /^(total|brk|exit_group|read|rt_sigreturn)$/ { print $1, $2, $3 + 0 }' "$st" | sort)"
	fsn attach syscalls openat 'get*pid' -n --json
	assert_json '[.[0].functions[].name] | sort' '["getpid","getppid","openat"]'
}

@test "syscalls: a group with a preset's name can have the user's own targets" {
	fsn attach files s:getppid -n --json
	assert_json '[.[0].functions[].name]' '["getppid"]'
	fsn attach files fix_add --lib "$FIX/libfix.so" -n --json
	assert_json '[.[0].functions[].kind]' '["function"]'
	fsn attach files openat -n --json
	assert_json '[.[0].functions[].name]' '["openat"]'
	cat >"$BATS_TEST_TMPDIR/c.json" <<-END
	{ "lib": "$FIX/libfix.so", "files_sym": { "openat": "fix_add",
		"slept": { "target": "s:nanosleep", "slow": "1ms" } } }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/c.json" -n --json
	assert_json '[.[0].functions[] | [.name, .symbol, .kind]]' \
		'[["openat","fix_add","function"],["slept","nanosleep","syscall"]]'
}

# bats test_tags=bpf,core
@test "list targets: shows system calls with types, and similar names" {
	need_tracefs
	fsn list targets 's:openat*' s:32:open s:nothing_such "$FIX/libfix.so:fix_alias_*"
	assert_output_match '^s:openat +[(]int dfd, const char [*]filename, int flags, umode_t mode[)] -> long$'
	assert_output_match "^$(realpath "$FIX/libfix.so"):fix_alias_a"
	assert_stderr "funcsnoop list: no system call 'nothing_such'"
	fsn list targets s:mmap --json
	assert_json '.[] | [.target, .kind, .library, .ret, .declared]' \
		'["s:mmap","syscall","[syscalls]","void *",true]'
	fsn -s 1 list targets s:opennat
	assert_stderr_match "did you mean 's:openat'"
	fsn -s 2 list targets
	fsn -s 2 list targets s:read --all
}
