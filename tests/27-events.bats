# SPDX-License-Identifier: BSD-2-Clause
# USDT probes, tracepoints and spans are targets like functions, with exact numbers and arguments.
# bats file_tags=bpf

load helpers
load stream

setup() {
	common_setup
	need_bpf
	need_tool jq
	EVENTS=$(realpath "$FIX/events")
}

# Runs `events WHAT...` with these TARGETS and options; $output is the document.
ran() { # TARGETS WHAT...
	local targets
	read -ra targets <<<"$1"
	capture "$FUNCSNOOP" run "${targets[@]//@/u:$EVENTS}" --format json \
		-o "$BATS_TEST_TMPDIR/run.json" --quiet -- "$EVENTS" "${@:2}"
	output=$(<"$BATS_TEST_TMPDIR/run.json")
}

# bats test_tags=bpf,core,arch
@test "usdt: all probes of threads and children are counted, several sites as one" {
	ran '@:fixed:*' threads 200 16
	assert_json '[.[0].functions[] | [.name, .calls, .untimed, .returns, .avg_ns]] | sort' \
		'[["fixed:guarded",3200,3200,null,null],["fixed:pair",6400,6400,null,null],["fixed:tick",3200,3200,null,null],["fixed:work__done",3200,3200,null,null],["fixed:work__start",3200,3200,null,null]]'
	ran '@:tick @:fixed:guarded' children 20 50
	assert_json '[.[0].functions[] | [.name, .calls]]' \
		'[["fixed:guarded",1000],["fixed:tick",1000]]'
	ran '@:tick @:pair --if arg1<10 --key arg1' threads 20 3
	assert_json '[.[0].functions[] | [.name, .calls]]' '[["fixed:pair",60],["fixed:tick",30]]'
}

@test "usdt: a semaphore is set while attached, also in later processes" {
	local link

	for link in auto multi perf; do
		[[ $link != multi ]] || feature_has multi || continue
		start_bg fix "$EVENTS" --wait --wait-end threads 10 1
		wait_ready fix
		fsn attach g "u:$EVENTS:guarded" --link "$link"
		tell fix
		wait_line fix '^guarded 10 semaphore 1$'
		capture "$EVENTS" threads 5 2
		assert_output "guarded 10 semaphore 1"
		assert_numbers g "fixed:guarded 20 0 - 0 0 20"
		fsn detach g
		tell fix
		wait_bg fix
		capture "$EVENTS" threads 5 2
		assert_output "guarded 0 semaphore 0"
	done
}

@test "usdt: a provider selects the probes of the files that processes map" {
	local file=$BATS_TEST_TMPDIR/own-events

	cp "$EVENTS" "$file"
	start_bg fix "$file" --wait threads 2 1
	wait_ready fix
	fsn attach g u:fixed:tick -p "$(bg_pid fix)"
	tell fix
	wait_bg fix
	fsn stats g --json
	assert_json '[.[0].functions[] | [.name, .calls, .library]]' "[[\"fixed:tick\",2,\"$file\"]]"
	fsn detach g
	fsn run u:fixed:tick --json -o "$BATS_TEST_TMPDIR/stats" -- "$file" threads 2 1
	output=$(<"$BATS_TEST_TMPDIR/stats")
	assert_json '[.[0].functions[] | [.name, .calls]]' '[["fixed:tick",2]]'
	start_bg fix "$file" --wait threads 2 1
	wait_ready fix
	fsn attach g u:fixed -p "$(bg_pid fix)" --dry-run --json
	assert_json '[.[0].functions[].name] | index("fixed:tick", "fixed:pair") != null' $'true\ntrue'
	fsn -s 1 attach g u:fixed:tock -p "$(bg_pid fix)"
	assert_stderr_match "process $(bg_pid fix) has no library 'fixed' mapped"
	assert_stderr_match "^hint: did you mean 'u:fixed:tick'$"
	tell fix
	wait_bg fix
}

# As java and its libjvm.so.
@test "usdt: a program without probes of its own has those of its libraries" {
	local host=$BATS_TEST_TMPDIR/own-host

	need_tool cc
	capture cc -D_GNU_SOURCE -O1 -fPIC -shared -pthread -Dmain=events_main \
		-o "$BATS_TEST_TMPDIR/libfsnvm.so" "$BATS_TEST_DIRNAME/fixtures/events.c"
	echo 'int events_main(int, char **); int main(int n, char **args) { return events_main(n, args); }' >"$host.c"
	capture cc -o "$host" "$host.c" -L"$BATS_TEST_TMPDIR" -lfsnvm -Wl,-rpath,"$BATS_TEST_TMPDIR"
	start_bg vm "$host" --wait --wait-end threads 10 4
	wait_ready vm
	fsn attach g 'u:own-host:tick' -p "$(bg_pid vm)"
	assert_stderr_match "^funcsnoop attach: 'own-host' has no USDT probes: those of all files of the process are meant$"
	fsn attach every 'u:own-host' -p "$(bg_pid vm)"
	assert_stderr_match "'own-host' has no USDT probes"
	fsn -s 1 attach h 'u:own-host:tack' -p "$(bg_pid vm)"
	fsn -s 1 attach h 'u:own-host:tick'
	assert_stderr_match "no USDT probe 'tick' in"
	tell vm
	wait_line vm '^guarded '
	fsn stats g --json
	assert_json '[.[0].functions[] | [.name, .calls]]' '[["fixed:tick",40]]'
	fsn stats every --json
	assert_json '[.[0].functions[] | select(.name | test("fixed:(tick|pair)")) | [.name, .calls]] | sort' \
		'[["fixed:pair",80],["fixed:tick",40]]'
	stop_bg vm
	fsn detach g every
}

@test "usdt: arguments are read from the locations in the notes" {
	start_bg fix "$EVENTS" --wait threads 2 1
	wait_ready fix
	fsn attach g "u:$EVENTS:tick" "u:$EVENTS:pair" -p "$(bg_pid fix)"
	start_stream s g --json
	tell fix
	wait_bg fix
	stop_stream s
	assert_eq "$(json 'select(.type == "call" and .function == "fixed:tick")
		| [.args | .arg1, .arg3, .arg4, .arg5, .arg6] + [.ret, .duration_ns]')" \
		'[0,0,0,"0xffffffff00000000",7,null,null]
[1,-1,-1,"0xffffffff00000001",7,null,null]'
	assert_eq "$(json 'select(.type == "call" and .function == "fixed:pair") | .args')" \
		'{"arg1":0}
{"arg1":0}
{"arg1":1}
{"arg1":1}'
	fsn detach g
}

@test "usdt: keys, sums and text use the notes' arguments; a configuration can name them" {
	ran '@:tick --key arg1 --sum arg3' threads 3 1
	assert_eq "$(json '.[0].functions[].rows | sort_by(.key) | .[] | [.key.arg1.value, .calls, .sums.arg3]')" \
		'[0,1,0]
[1,1,-1]
[2,1,-2]'
	ran '@:tick --if arg2=="odd"' threads 5 2
	assert_json '.[0].functions[].calls' 4
	cat >"$BATS_TEST_TMPDIR/c.json" <<-END
	{ "g_sym": { "ticked": { "target": "u:$EVENTS:tick", "args": ["int nth", "const char *how"] } } }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/c.json" --key how
	capture "$EVENTS" threads 5 1
	fsn stats g --json
	assert_eq "$(json '.[0].functions[] | .name as $name | .rows | sort_by(.key) | .[] | [$name, .key.how.value, .calls]')" \
		'["ticked","even",3]
["ticked","odd",2]'
	fsn detach g
}

@test "list targets: shows the USDT probes of a file with their arguments" {
	fsn list targets "u:$EVENTS"
	assert_output_match "^u:$EVENTS:fixed:tick +[(]int32_t arg1, uint64_t arg2, int64_t arg3, int16_t arg4, uint64_t arg5, uint32_t arg6[)]"
	fsn list targets "u:$EVENTS:work*" --json
	assert_json '[.[] | [.target, .kind, .library, .args]]' \
		"[[\"u:$EVENTS:fixed:work__done\",\"usdt\",\"$EVENTS\",[\"int64_t arg1\"]],[\"u:$EVENTS:fixed:work__start\",\"usdt\",\"$EVENTS\",[\"int64_t arg1\"]]]"
}

@test "events: a missing probe is an error with similar names, and leaves nothing" {
	fsn -s 1 attach g "u:$EVENTS:tock"
	assert_stderr "funcsnoop attach: no USDT probe 'tock' in '$EVENTS'
hint: did you mean 'u:$EVENTS:tick'"
	fsn -s 1 attach g "u:$EVENTS:other:tick"
	fsn -s 1 attach g "u:$FIX/libfix.so:*"
	assert_stderr "funcsnoop attach: no USDT probe '*' in '$(realpath "$FIX/libfix.so")'
hint: 'funcsnoop list targets \"u:*\"' shows those of running programs"
	fsn -s 1 attach g u:no_such_library_anywhere:tick
	assert_stderr_match "no_such_library_anywhere"
	fsn attach g -r "u:$EVENTS:^fixed:(tick|pair)$" -n --json
	assert_json '[.[0].functions[] | [.name, .kind, .offset, .site_why]]' \
		'[["fixed:pair","usdt",null,"USDT probe, 2 sites"],["fixed:tick","usdt",null,"USDT probe, 1 site"]]'
	fsn list
	assert_output ''
}

@test "usdt: probes of python3 match its garbage collections and the imported module" {
	local python=/usr/bin/python3 collected

	[[ $("$FUNCSNOOP" list targets "u:$python" 2>&1) == *python:gc__start* ]] ||
		skip "this python3 has no USDT probes"
	capture "$FUNCSNOOP" run "u:$python:gc__start" "u:$python:gc__done" --key arg1 --format json -o \
		"$BATS_TEST_TMPDIR/run.json" --quiet -- "$python" -c 'if True:
		import gc
		gc.disable()
		for i in range(7): gc.collect(0)
		print(gc.get_stats()[0]["collections"])'
	collected=$output
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	assert_json '[.[0].functions[] | select(.name == "python:gc__start").rows[]
		| select(.key.arg1.value == 0).calls] | add' "$collected"
	assert_json '.[0].functions | map(.calls) | .[0] == .[1]' true
	capture "$FUNCSNOOP" run "u:$python:import__find__load__start" --if 'arg1=="wave"' \
		--format json -o "$BATS_TEST_TMPDIR/run.json" --quiet -- "$python" -c 'import wave'
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	assert_json '.[0].functions[].calls' 1
}

@test "usdt: probes of libstdc++ count exceptions, and those of postgres are found" {
	local lib=(/usr/lib/*-linux-gnu/libstdc++.so.6) postgres=(/usr/lib/postgresql/*/bin/postgres)

	[[ -e ${lib[0]} && -x $FIX/nest ]] || skip "no libstdc++, or no C++ compiler"
	cp "${lib[0]}" "$BATS_TEST_TMPDIR/libstdc++.so.6"
	[[ $("$FUNCSNOOP" list targets "u:$BATS_TEST_TMPDIR/libstdc++.so.6" 2>&1) == *libstdcxx:throw* ]] ||
		skip "this libstdc++ has no USDT probes"
	fsn attach g "u:$BATS_TEST_TMPDIR/libstdc++.so.6:throw" "u:$BATS_TEST_TMPDIR/libstdc++.so.6:catch"
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR capture "$FIX/nest" 5 thrown
	fsn stats g --json
	assert_json_true '.[0].functions | map(.calls) | .[0] == .[1] and .[0] >= 5 and .[0] % 5 == 0'
	fsn detach g
	[[ -x ${postgres[0]} ]] || return 0
	fsn list targets "u:${postgres[0]}:query__start"
	assert_output_match 'postgresql:query__start +[(]uint64_t arg1[)]'
}

@test "tracepoints: all events of threads and children are counted" {
	need_tracefs
	ran 't:syscalls:sys_enter_getppid s:getppid' threads 1 1
	capture "$FUNCSNOOP" run t:syscalls:sys_enter_getppid t:syscalls:sys_exit_fsync s:getppid s:fsync \
		--format json -o "$BATS_TEST_TMPDIR/run.json" --quiet -- "$FIX/syscalls" threads 100 16
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	assert_json '[.[0].functions[] | [.name, .calls, .returns]] | sort' \
		'[["fsync",1600,1600],["getppid",1600,1600],["syscalls:sys_enter_getppid",1600,null],["syscalls:sys_exit_fsync",1600,null]]'
	ran 't:sched:sched_process_fork t:sched:sched_process_exit t:sched:sched_process_exec' children 1 50
	assert_json '[.[0].functions[] | [.name, .calls]] | sort' \
		'[["sched:sched_process_exec",1],["sched:sched_process_exit",51],["sched:sched_process_fork",50]]'
}

@test "tracepoints: fields are arguments in keys, conditions and streams" {
	need_tracefs
	start_bg fix "$FIX/syscalls" --wait threads 4 1
	wait_ready fix
	fsn attach g t:sched:sched_process_exit --pid "$(bg_pid fix)" --key comm
	fsn attach h t:syscalls:sys_enter_fsync --if 'fd==4294967295' --key fd -p "$(bg_pid fix)"
	fsn attach i t:syscalls:sys_enter_fsync --if 'fd==3' -p "$(bg_pid fix)"
	start_stream s g --json
	tell fix
	wait_bg fix
	stop_stream s
	assert_json 'select(.type == "call") | select(.pid == .tid)
		| [.function, .args.comm, .args.pid == .pid, .ret]' \
		'["sched:sched_process_exit","syscalls",true,null]'
	fsn stats g --json
	assert_json '.[0].functions[].rows[] | [.key.comm.value, .calls]' '["syscalls",2]'
	fsn stats h --json
	assert_json '.[0].functions[].rows | map(.calls) | add' 4
	fsn stats i --json --all
	assert_json '.[0].functions[].calls' 0
	fsn detach g h i
	fsn list targets t:sched:sched_process_exec t:sched:sched_switch
	assert_output_match '^t:sched:sched_process_exec +[(]__data_loc char\[\] filename, pid_t pid, pid_t old_pid[)]'
	assert_output_match 'char prev_comm\[16\]'
}

@test "span: lasts from one event to another of the same thread, with times" {
	ran "@:fixed:work__start..@:work__done" threads 50 16
	assert_json '.[0].functions[] | [.name, .calls, .returns, .in_flight, .abandoned, .untimed]' \
		'["fixed:work__start..fixed:work__done",800,800,0,0,0]'
	assert_json_true '.[0].functions[] | .min_ns > 0 and ([.histogram[].count] | add) == 800'
	ran "@:work__start..@:work__done" unended 5
	assert_json '.[0].functions[] | [.calls, .returns, .in_flight + .abandoned]' '[5,0,5]'
	ran "@:work__start..@:work__done --key arg1 --slow 0ns" threads 6 1
	assert_json '.[0].functions[] | [.calls, .slow, ([.rows[].returns] | add)]' '[6,6,6]'
}

@test "events: spans mix kinds and files, can be in flight, and join functions" {
	need_tracefs
	start_bg fix "$EVENTS" --wait --wait-end unended 1
	wait_ready fix
	fsn attach g "u:$EVENTS:work__start..t:sched:sched_process_exit" "u:$EVENTS:tick" s:getppid \
		fix_add --lib "$FIX/libfix.so" -p "$(bg_pid fix)"
	tell fix
	wait_line fix '^guarded'
	fsn list inflight g --json
	assert_json '.[] | [.function, .pid, .stale]' \
		"[\"fixed:work__start..sched:sched_process_exit\",$(bg_pid fix),false]"
	tell fix
	wait_bg fix
	fsn stats g --json --all
	assert_json '[.[0].functions[] | select(.calls > 0) | [.name, .calls, .returns]]' \
		'[["fixed:work__start..sched:sched_process_exit",1,1]]'
	fsn list functions g --json
	assert_json '[.[0].functions[].kind] | sort' '["function","span","syscall","usdt"]'
	fsn detach g
}

@test "span: the end in another thread or after another end is unmatched" {
	ran "@:work__start..@:work__done" twice 50
	assert_json '.[0] | [.functions[0].calls, .functions[0].returns, .functions[0].abandoned,
		.health.unmatched_returns]' '[100,50,50,50]'
	# A new thread may have the task_struct of one that has ended in its span.
	ran "@:work__start..@:work__done" open 100 20
	assert_json '.[0] | [.functions[0].calls, .functions[0].returns, .functions[0].in_flight +
		.functions[0].abandoned, .health.unmatched_returns]' '[2000,0,2000,2000]'
}

@test "span: return probes of functions inside end none, next to system calls" {
	ran "@:tick..@:work__done s:getppid pair guard --exit return --lib $EVENTS" threads 50 8
	assert_json '[.[0].functions[] | select(.name != "getppid") | [.name, .calls, .returns]] | sort' \
		'[["fixed:tick..fixed:work__done",400,400],["guard",400,400],["pair",400,400]]'
	assert_json '.[0].health.unmatched_returns' 0
}

@test "attach: several targets of a group share a tracepoint, spans included" {
	local in=t:syscalls:sys_enter_getppid out=t:syscalls:sys_exit_getppid

	need_tracefs
	capture "$FUNCSNOOP" run "$in" "$out" "$in..$out" "$out..$in" \
		"$in..t:syscalls:sys_enter_fsync" s:getppid --format json \
		-o "$BATS_TEST_TMPDIR/run.json" --quiet -- "$FIX/syscalls" threads 100 8
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	# After a thread's last call nothing ends the span from one call to the next.
	assert_json '[.[0].functions[] | [.name, .calls, .returns, .in_flight + .abandoned]] | sort' \
		'[["getppid",800,800,0],["syscalls:sys_enter_getppid",800,null,0],["syscalls:sys_enter_getppid..syscalls:sys_enter_fsync",800,800,0],["syscalls:sys_enter_getppid..syscalls:sys_exit_getppid",800,800,0],["syscalls:sys_exit_getppid",800,null,0],["syscalls:sys_exit_getppid..syscalls:sys_enter_getppid",800,792,8]]'
}

@test "events: wrong spans and tracepoints are errors that leave nothing" {
	need_tracefs
	fsn -s 1 attach g "u:$EVENTS:tick..u:$EVENTS:tick"
	assert_stderr "funcsnoop attach: 'u:$EVENTS:tick..u:$EVENTS:tick': a span is from one event to another, not to the same one"
	fsn -s 1 attach g t:sched:sched_switch..t:sched:sched_switch
	assert_stderr_match "not to the same one"
	fsn -s 1 attach g "u:$EVENTS:work*..u:$EVENTS:work__done"
	assert_stderr_match "a span is from one event to another"
	fsn -s 1 attach g "u:$EVENTS:work__start..u:$EVENTS:work__dome"
	assert_stderr_match "did you mean 'u:$EVENTS:work__done'"
	fsn -s 1 attach g t:sched:sched_process_exce
	assert_stderr "funcsnoop attach: no tracepoint 'sched:sched_process_exce'
hint: did you mean 't:sched:sched_process_exec'"
	fsn -s 1 attach g t:sched_process_exec
	assert_stderr_match "did you mean 't:sched:sched_process_exec'"
	fsn -s 1 attach g 't:nothing:*'
	assert_stderr "funcsnoop attach: no tracepoint 'nothing:*'"
	fsn -s 1 attach g t:../../x:y
	fsn -s 1 attach g 't:*:*'
	assert_stderr_match "force"
	fsn attach g 't:sched:sched_process_e*' -n --json
	assert_json '[.[0].functions[] | [.name, .kind, .library, .offset]]' \
		'[["sched:sched_process_exec","tracepoint","[tracepoints]",null],["sched:sched_process_exit","tracepoint","[tracepoints]",null]]'
	fsn list
	assert_output ''
}

@test "usdt: attach and detach during calls leave no semaphore set" {
	local i

	start_bg fix "$EVENTS" --wait threads 1000000000 2
	wait_ready fix
	tell fix
	for i in 1 2; do
		fsn attach g "u:$EVENTS:*" "u:$EVENTS:work__start..u:$EVENTS:work__done"
		poll_until eval "$FUNCSNOOP stats g --json | jq -e '.[0].functions | map(.calls) | min > 0'"
		fsn stats g --json
		assert_json '.[0].functions[] | select(.returns) | .calls - .returns - .in_flight - .abandoned' 0
		fsn detach g
	done
	stop_bg -KILL fix
	capture "$EVENTS" threads 3 2
	assert_output "guarded 0 semaphore 0"
}

# In mounts of its own, in which HIDE, lines of a shell, is done before.
hidden() { # STATUS HIDE FUNCSNOOP-ARG...
	capture -s "$1" unshare --mount --propagation private \
		bash -c "set -e; $2; exec "'"$@"' bash "$FUNCSNOOP" "${@:3}"
}

@test "events: hidden and forbidden targets of each kind are errors that leave nothing" {
	need_tracefs
	local target no_btf='mount -t tmpfs t /sys/kernel/btf'
	local tracing=/sys/kernel/tracing debug=/sys/kernel/debug
	local format=$tracing/events/syscalls/sys_enter_getppid/format
	local no_format="mountpoint -q $tracing || mount -t tracefs t $tracing; mount --bind /dev/null $format"
	local weak="mount -t tmpfs t $tracing; ! [[ -d $debug ]] || mount -t tmpfs t $debug
		set -- setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"\$@\""

	for target in s:getppid t:sched:sched_switch "u:$EVENTS:tick" "$EVENTS:main"; do
		hidden 1 "$no_btf" attach g "$target" -p $$ --quiet
		assert_stderr "funcsnoop attach: cannot attach group 'g': this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"
	done
	hidden 1 "$no_btf" attach g 'k:vfs_*'
	assert_stderr_match "^funcsnoop attach: this kernel has no BTF of its functions"

	hidden 1 "$no_format" attach g t:syscalls:sys_enter_getppid
	assert_stderr "funcsnoop attach: tracepoint 'syscalls:sys_enter_getppid': a tracepoint's format has no number"
	hidden 0 "$no_format" list targets s:getppid
	assert_output_match "^s:getppid +-> long; tracepoint 'syscalls:sys_enter_getppid': a tracepoint's format has no number$"
	hidden 0 "$no_format" list targets 't:syscalls:sys_enter_getpp*' t:syscalls:sys_enter_getpid
	assert_eq "$(wc -l <<<"$output")" 2

	hidden 1 "$weak" attach g t:sched:sched_switch
	assert_stderr_match "^funcsnoop attach: tracefs is not mounted, and can't be: "
	assert_stderr_match "^hint: needs CAP_SYS_ADMIN.*, or a tracefs that root mounted: 'mount -t tracefs tracefs $tracing'$"
	hidden 2 "$weak" attach g s:close -p $$ --key fd
	assert_stderr_match "^hint: 'close': tracefs is not mounted, and can't be: .*; declare \"args\""
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
}

@test "events: --dry-run reports missing targets by their kind" {
	local target events=./${EVENTS##*/}

	cd "${EVENTS%/*}" # a long name would be shortened
	for target in "no such tracepoint t:foo:bar" "no such system call s:opena" \
		"no such USDT probe u:$events:tock" "no such USDT probe u:no_such_library_anywhere:x" \
		"no such kernel function k:vfs_reed" "no such symbol $events:mein"; do
		[[ $target != *k:* || -r /sys/kernel/btf/vmlinux ]] || continue
		fsn -s 1 attach g "${target##* }" --dry-run
		assert_output_match "^${target##* } .* missing +${target% *}$"
	done
}

@test "stacks: those of USDT probes begin at the probe" {
	need_arch x86_64
	fsn attach g "u:$EVENTS:tick" --stacks all
	capture "$EVENTS" threads 2 3
	fsn stats g --json
	assert_json '[.[0].functions[0].rows[].calls] | add' 6
	assert_json '[.[0].functions[0].rows[].key.stack | [.end, .frames[0].file]] | unique | map(.[1] |= split("/")[-1])' \
		'[["outermost","events"]]'
	assert_json '[.[0].functions[0].rows[].key.stack.frames[0:2] | [.[0].offset, .[1].name]] | unique' \
		"$(readelf -n "$EVENTS" | sed -nE '/Name: tick$/ { n; s/.*Location: 0x0*([0-9a-f]+),.*/[["0x\1","pass"]]/p }')"
	fsn detach g
}
