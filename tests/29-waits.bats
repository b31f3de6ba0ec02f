# SPDX-License-Identifier: BSD-2-Clause
# Waits of threads: off the CPU, and in the run queue.
# Alone: waits of the whole machine are counted.
# bats file_tags=bpf,alone

load helpers

WAITS=$FIX/waits

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# Attaches with ARGs to the fixture and runs it until its threads have done their work; their
# lines are in $said.
work() { # MODE ROUNDS ARG...
	start_bg w "$WAITS" --wait --wait-end "$1" "$2"
	wait_ready w
	fsn attach g --pid "$(bg_pid w)" "${@:3}"
	tell w
	wait_line -t 60 w '^done'
	said=$(grep -v '^\(ready\|done\)' "$(bg_out w)")
	poll_until are_asleep
}

# How often the thread, which sleeps, was switched out of itself and otherwise, and for how many ns
# it could run and had no CPU.
figures() { # TID
	local task

	task=/proc/$(bg_pid w)/task/$1
	awk '/ctxt_switches/ { printf "%d ", $2 }' "$task/status"
	cut -d' ' -f2 "$task/schedstat"
}

are_asleep() {
	local name tid

	while read -r name tid; do
		grep -q '^State:.S' "/proc/$(bg_pid w)/task/$tid/status" || return 1
	done <<<"$said"
}

# All sleeps but the last are over, and each thread started as runnable. A switch to a CPU that
# the kernel has not traced gives one wait less, and an abandoned one.
waits_fit() {
	local name tid own others queued eps

	while read -r name tid; do
		read -r own others queued <<<"$(figures "$tid")"
		assert_json "[.[0].functions[] | .abandoned as \$lost |
			(if .name == \"off-cpu\" then $((own - 1)) else $((own + others)) end) -
			(.rows[] | select(.key.thread.value == $tid).calls) | . >= 0 and . <= \$lost]" \
			'[true,true]' "$name: $own, $others" || return
		eps=$((queued / 10 + (own + others + 1) * 300000)) # an emulated CPU takes long from one to the other
		assert_json_true "(.[0].functions[] | select(.name == \"run-queue\")) as \$f |
			([\$f.rows[] | select(.key.thread.value == $tid).total_ns] | add - $queued) as \$d |
			\$d <= $eps and (\$f.abandoned > 0 or -\$d <= $eps)" || return
	done <<<"$said"
}

waits_match() {
	local try fit=

	# An untraced switch away from a CPU also gives one wait less, without a trace of it:
	# one of three runs must have none.
	for ((try = 0; try < 3 && !fit; try++)); do
		work lock 3 w:off-cpu w:run-queue --key thread
		fsn stats g --by thread --json
		! waits_fit || fit=1
		tell w
		wait_bg w
		fsn detach g
	done
	((fit)) || fail "in none of $try runs"
}

# bats test_tags=core
@test "waits: numbers and durations match the kernel's counters of the thread" {
	waits_match
}

@test "waits: the common clock is used where those of the run queues can differ" {
	echo hpet >"$BATS_TEST_TMPDIR/clock"
	mount --bind "$BATS_TEST_TMPDIR/clock" /sys/devices/system/clocksource/clocksource0/current_clocksource
	waits_match
	umount /sys/devices/system/clocksource/clocksource0/current_clocksource
}

@test "waits: slow waits show who had the CPU, and who woke the thread" {
	work lock 2 w:off-cpu --slow 15ms
	fsn stats g --slow --json
	assert_json_true '[.[0].slow_calls[] | select(.comm == "producer" and
		.args.waker == "holder")] | length >= 2'
	tell w
	wait_bg w
	fsn detach g
}

@test "waits: run's stream shows the waker, which is empty in a group without keys and --slow" {
	start_bg w "$WAITS" --wait --wait-end lock 2
	wait_ready w
	start_bg run "$FUNCSNOOP" run off-cpu --stream --json -p "$(bg_pid w)"
	poll_until grep -q 'watching' "$(bg_err run)"
	fsn attach g w:off-cpu --pid "$(bg_pid w)"
	fsn set g --slow 15ms
	tell w
	wait_line -t 60 w '^done'
	poll_until grep -q '"waker":"holder"' "$(bg_out run)"
	fsn stats g --slow --json
	assert_json '[.[0].slow_calls[] | select(.comm == "producer").args.waker] | unique' '[""]'
	tell w
	wait_bg w
	kill -INT "$(bg_pid run)"
	wait_bg run
	fsn detach g
}

@test "waits: the waker of a timer's sleep is an interrupt, not the thread that it interrupts" {
	need_tool taskset
	need_tool python3
	cp "$BASH" "$BATS_TEST_TMPDIR/spinner" # a name that no other thread has
	start_bg spinner taskset -c 0 "$BATS_TEST_TMPDIR/spinner" -c 'while :; do :; done'
	start_bg w taskset -c 0 python3 -c 'import time
while True: time.sleep(0.02)'
	fsn attach g w:off-cpu --by comm,waker -p "$(bg_pid w)"
	sleep 1.5
	fsn stats g --json
	# Threads in the kernel are interrupted, too: of other processes, for this one makes no call.
	assert_json_true '[.[0].functions[0].rows[] | select(.key.waker.value == "(interrupt)").calls] | add >= 10'
	assert_json '[.[0].functions[0].rows[].key.waker.value] | index("spinner")' null
	fsn detach g
	stop_bg w
	stop_bg spinner
}

@test "waits: the stack that woke a thread has the kernel's part and the program's" {
	work lock 2 w:off-cpu --by comm,waker,waker_stack
	fsn stats g --json
	assert_json_true '[.[0].functions[0].rows[].key | select(.comm.value == "producer" and
		.waker.value == "holder").waker_stack.frames[].name] |
		index("futex_wake_[k]") < index("run") and index("wake_up_q_[k]") != null'
	tell w
	wait_bg w
	fsn detach g
}

@test "waits: the key 'instead' names the thread that got the CPU" {
	work rob 20 w:run-queue --key comm,instead
	fsn stats g --by comm,instead --json
	assert_json '[.[0].functions[0].rows[] | [.key.comm.value, .key.instead.value] |
		select(. == ["victim", "robber"] or . == ["robber", "victim"])] | sort' \
		'[["robber","victim"],["victim","robber"]]'
	tell w
	wait_bg w
	fsn detach g
}

@test "waits: unsupported options are errors, and the cost of switches is shown" {
	fsn -s 1 attach run-queue --if 'instead == "x"'
	assert_stderr "funcsnoop attach: --if: what a wait is about is known when it is over
hint: use --by to break calls down by it"
	fsn -s 1 attach g w:run-queue --cgroup /
	assert_stderr "funcsnoop attach: cannot attach group 'g': 'cgroup' of --if chooses no waits of 'run-queue'
hint: use --by cgroup to distinguish them"
	fsn -s 1 attach g w:off-cup
	assert_stderr "funcsnoop attach: threads have no wait 'off-cup'
hint: did you mean 'w:off-cpu'"
	fsn attach g w:off-cpu
	assert_output_match '^g: each switch of every CPU to another thread takes some [0-9]+ to [0-9]+ ns longer$'
	fsn detach g
}

@test "waits: samples show the function that uses the CPU, and its callers" {
	local hot cold pins value

	work burn 40 cpu:samples
	fsn stats g --by stack --format folded
	# Nine parts of ten; a few samples are enough to tell.
	hot=$(awk '/;burn_hot/ { n += $NF } END { print n + 0 }' <<<"$output")
	cold=$(awk '/;burn_cold/ { n += $NF } END { print n + 0 }' <<<"$output")
	((hot >= 12 && hot > 3 * cold)) || differs "samples" "most in burn_hot" "$output"
	assert_output_match ';burner;burn_hot[; ]'
	# It asks what time it has used, by code of the kernel's in the process, which has names, too.
	assert_output_match ';burn_hot;(.*;)?__(vdso|kernel)_clock_gettime[; ]'
	refute_output_match ';(0x|\[vdso])'
	# Sometimes it is in the linker's stub for that call.
	refute_output_match "frame can't be followed"
	# As if a CPU had come.
	if (($(nproc) > 1)); then
		pins=$FUNCSNOOP_BPFFS/funcsnoop/g
		value=$(bpftool -j map lookup pinned "$pins/meta" key 0 0 0 0 |
			jq -r ".value | .[$(field_at fsn_meta sampled_cpus)] = \"0x1\" | join(\" \")")
		# shellcheck disable=SC2086 # a word a byte
		bpftool map update pinned "$pins/meta" key 0 0 0 0 value $value
		fsn stats g
		assert_stderr_match 'CPUs? (has|have) come since the attach, and not sampled'
	fi
	tell w
	wait_bg w
	fsn detach g
}

# bats test_tags=core,arch
@test "waits: stacks have the thread's frames, then the kernel's" {
	local us

	work lock 2 w:off-cpu --stacks all
	fsn stats g --by stack --format folded
	assert_output_match 'producer;produce;take_lock;.*futex.*_[[]k[]]'
	# Mappings of other processes do not matter: each sleep of the two is walked
	# completely.
	refute_output_match 'mappings are changing'
	# By waits.c: two naps of the holder per round, and only the lock in produce().
	assert_output_match 'run;holder;.*nanosleep.*_[[]k[]]'
	refute_output_match ';produce;(.*;)?nanosleep'
	assert_eq "$(grep ';produce;' <<<"$output" | grep -vc ';produce;take_lock;')" 0
	# Durations of waits in microseconds: twice 20 ms, for which the producer may be late.
	us=$(awk '/;produce;/ { us += $NF } END { print us }' <<<"$output")
	((us >= 20000)) || differs "microseconds" "20000 at least" "$us: $output"
	fsn stats g --by stack --format folded --sort calls
	assert_eq "$(awk '/;produce;/ { calls += $NF } END { print calls }' <<<"$output")" 2
	fsn stats g --by stack --format flame -o "$BATS_TEST_TMPDIR/waits.html"
	grep -q '"chosen":1,"figures":\[{"name":"waits","unit":"count"},{"name":"time"' "$BATS_TEST_TMPDIR/waits.html"
	fsn stats g --json
	assert_json '[.[0].functions[].rows[].key.stack.end] | unique' '["outermost"]'
	tell w
	wait_bg w
	fsn detach g
}

@test "waits: COMMAND's waits before execve() and during a stop are not counted" {
	local prog=$BATS_TEST_TMPDIR/prog

	# It is read from the disk, where there is one, while it is not yet what runs.
	cp "$(command -v sleep)" "$prog"
	sync "$prog"
	dd of="$prog" oflag=nocache conv=notrunc,fdatasync count=0 if=/dev/null status=none
	fsn run off-cpu --key comm --by comm --output "$BATS_TEST_TMPDIR/rows" -- "$prog" 0.01
	output=$(<"$BATS_TEST_TMPDIR/rows")
	assert_output_match ' prog +[0-9]'
	refute_output_match ' funcsnoop +[0-9]'
	# No command has built the table of the second program.
	fsn run off-cpu --stacks all --format folded -o "$BATS_TEST_TMPDIR/folded" -- \
		bash -c "$prog 0.05; :"
	output=$(<"$BATS_TEST_TMPDIR/folded")
	assert_output_match 'nanosleep.*_[[]k[]]'
	refute_output_match 'do_signal_stop'
}

# The commands of the manual's section that have TEXT, with the fixture for their process.
try_lines() { # TEXT
	local line i n=0

	while read -r line; do
		[[ $line == *"$1"* ]] || continue
		line=${line/-p 181/-p $(bg_pid w)}
		cd "$BATS_TEST_TMPDIR" || return
		echo "# $line"
		eval "start_bg run$n '$FUNCSNOOP' ${line/ -d 10/}"
		poll_until grep -q 'attached to' "$(bg_err run$n)"
		n=$((n + 1))
	done < <(sed -n "/^\.Sh EXAMPLES/,/^\.Sh COMMAND/s/^# funcsnoop //p" \
		"$BATS_TEST_DIRNAME/../man/funcsnoop-run.8")
	((n))
	tell w
	wait_line -t 60 w '^done'
	for ((i = 0; i < n; i++)); do
		kill -INT "$(bg_pid "run$i")"
		wait_bg "run$i"
	done
	tell w
}

# The manual's commands that begin as LINE, on the fixture; what the first showed is in $output.
try_on() { # MODE ROUNDS LINE
	start_bg w "$WAITS" --wait --wait-end "$1" "$2"
	wait_ready w
	try_lines "$3"
	output=$(<"$(bg_out run0)")
}

@test "waits: each command of the manual shows the behaviour of its example program" {
	try_on burn 60 'run cpu'
	assert_output_match ' burner +[0-9]'
	assert_output_match ' burn_hot( > .*)? +[0-9]'
	grep -q burn_hot "$BATS_TEST_TMPDIR/cpu.html"
	grep -q '"chosen":0,"figures":\[{"name":"samples"' "$BATS_TEST_TMPDIR/cpu.html"
	wait_bg w
	try_on lock 12 'run off-cpu'
	assert_output_match ' futex_wait_[[]k[]] '
	output=$(<"$(bg_out run2)")
	assert_output_match ' producer +holder '
	grep -q '"take_lock"' "$BATS_TEST_TMPDIR/off.html"
	wait_bg w
	try_on rob 60 'run run-queue'
	assert_output_match ' victim +robber '
	assert_output_match ' robber +victim '
	output=$(<"$(bg_out run1)")
	assert_output_match '^Function = run-queue$'
	wait_bg w
	start_bg w "$FIX/call" --wait --wait-end add 10
	wait_ready w
	try_lines 'fix_add'
	output=$(<"$(bg_out run0)")
	assert_output_match '^FUNCTION .* CPU% +QUEUED% +BLOCKED% '
	assert_output_match '^fix_add +10 '
	wait_bg w
}

@test "waits: building a table interrupts no system call of COMMAND" {
	need_fixture stacks
	start_bg r "$FUNCSNOOP" run off-cpu --stacks all --output "$BATS_TEST_TMPDIR/table" -- \
		sh -c '"$@"; exit' sh "$FIX/stacks" interrupted
	poll_until in_epoll
	tell r
	wait_bg r
	assert_eq "$(grep -c '^interrupted 0 times' "$(bg_out r)")" 1
}

in_epoll() {
	local pid
	# epoll_wait() of x86-64, epoll_pwait() of both
	pid=$(pgrep -xn stacks) && grep -qE '^(232|281|22) ' "/proc/$pid/syscall"
}
