# SPDX-License-Identifier: BSD-2-Clause
# Functions of the kernel: exact by trampolines, a bound by kprobes.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# With kprobes alone, as on arm64 before 6.4, not all returns are traced.
need_fentry() {
	need_kprobes
	"$FUNCSNOOP" attach try k:eventfd_read --dry-run --json 2>/dev/null |
		jq -e 'any(.. | .exit_why? // empty; . == "fexit")' >/dev/null ||
		skip "this kernel has no fentry for its functions"
}

# shellcheck disable=SC2016	# jq's own
# bats test_tags=bpf,core,arch
@test "kernel: fentry traces all concurrent returns, kprobes a part of them" {
	need_fentry
	start_bg fix "$FIX/syscalls" --wait waiting 30
	wait_ready fix
	fsn attach g k:eventfd_read k:eventfd_write -p "$(bg_pid fix)"
	fsn attach k 'k:eventfd_rea*' -p "$(bg_pid fix)" --link perf
	fsn list --json
	assert_json 'map([.name, .link, .exits, .libraries])' \
		'[["g","fentry","return",["[kernel]"]],["k","kprobe","some",["[kernel]"]]]'
	tell fix
	wait_line fix '^waiting'
	poll_until eval "$FUNCSNOOP stats k --json | jq -e '.[0].functions[0].calls == 30'"
	# A kernel that preempts programs leaves them out for others meanwhile, and counts that.
	fsn stats g --json
	assert_json_true '.[0] | .health.missed as $missed | .functions[] |
		select(.name == "eventfd_read") | .calls >= 30 - $missed and .in_flight == .calls'
	fsn reset g
	assert_numbers k "eventfd_read 30 0 0 0 0 30"
	fsn stats k --format prometheus
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/waiting.prom"
	tell fix
	wait_bg fix
	fsn stats g --json
	assert_json_true '.[0] | .health.missed as $missed | .functions[] |
		select(.name == "eventfd_read") | .calls + .carried >= 31 - $missed and
		.calls + .carried == .returns + .abandoned + .in_flight and
		.returns >= 31 - $missed and ($missed > 0 or
			.return_codes == [{ code: -11, count: 1, name: "EAGAIN" }])'
	fsn stats k --json
	assert_json_true '.[0].functions[0] | .calls == 31 and .in_flight == 0 and .returns > 0 and
		.calls == .returns + .untimed and .errors == 1'
	fsn stats k --format prometheus
	assert_only_grows "$BATS_TEST_TMPDIR/waiting.prom" "$BATS_TEST_TMPDIR/.out"
	fsn detach --all
}

# bats test_tags=bpf,core
@test "stacks: those of kernel functions have the kernel's frames and the program's" {
	local how hits parts

	need_fentry
	for how in k:eventfd_read "k:eventfd_read --count" "k:eventfd_rea* --link perf"; do
		start_bg fix "$FIX/syscalls" --wait waiting 3
		wait_ready fix
		# shellcheck disable=SC2086	# words
		fsn attach g $how --by stack -p "$(bg_pid fix)"
		tell fix
		wait_line fix '^waiting'
		tell fix
		wait_bg fix
		fsn stats g --json
		# As above: those that are missed are counted, entries and returns.
		hits=8
		[[ $how != *--count ]] || hits=4
		parts=$(json -c '.[0] | [([.functions[0].rows[].calls] | add), .functions[0].returns // 0,
			.health.unmatched_returns, .health.missed]')
		jq -en "$parts | (add == $hits or (add > $hits and last > 0)) and (.[:3] | add) <= $hits" >/dev/null ||
			fail "$how: $parts (calls, returns, unmatched, missed) of $hits"
		assert_json '[.[0].functions[0].rows[].key.stack | [.end, .frames[0].name,
			any(.frames[]; .file // "" | endswith("/libc.so.6"))]] | unique' \
			'[["outermost","vfs_read_[k]",true]]'
		fsn detach g
	done
}

@test "kernel: BTF gives functions with types, and the reason why one is refused" {
	[[ -r /sys/kernel/btf/vmlinux ]] || skip "this kernel has no BTF"
	fsn list targets k:vfs_read k:bpf_get_current_task_btf k:vfs_read_such
	assert_output_match '^k:vfs_read +.struct file [*]file, char [*]buf, size_t count, loff_t [*]pos. -> ssize_t(; refused: this kernel has no .*)?$'
	assert_output_match '^k:bpf_get_current_task_btf +.*refused: BPF programs run in it or call it$'
	assert_stderr "funcsnoop list: no function 'vfs_read_such' in the kernel's BTF"
	fsn list targets kprobe:vfs_write --json
	assert_json '.[] | [.target, .name, .kind, .library, .ret, .declared]' \
		'["k:vfs_write","vfs_write","kfunc","[kernel]","ssize_t",true]'
	fsn -s 1 attach g k:vfs_reed
	assert_stderr_match "did you mean 'k:vfs_read"
}

# bats test_tags=bpf,core
@test "kernel: functions show their module; without rights attach leaves nothing" {
	local how

	need_fentry
	need_tool setpriv
	for how in k:vfs_read "k:vfs_r*"; do
		capture -s 1 setpriv --inh-caps=-all --bounding-set=-all,+dac_override,+bpf \
			"$FUNCSNOOP" attach g "$how"
		assert_stderr_match "Operation not permitted
hint: needs CAP_PERFMON"
	done
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	[[ -e /sys/kernel/btf/overlay && $(stat -f -c %T "$BATS_TEST_DIRNAME") == overlayfs ]] ||
		skip "no module at hand: overlay"
	capture -s 1 setpriv --inh-caps=-all \
		--bounding-set=-all,+dac_override,+bpf,+perfmon "$FUNCSNOOP" attach g k:ovl_open
	assert_stderr_match "cannot open the BTF of module 'overlay': Operation not permitted
hint: needs CAP_SYS_ADMIN"
	start_bg fix "$FIX/syscalls" --wait absent "$BATS_TEST_FILENAME"
	wait_ready fix
	fsn attach g k:ovl_open -p "$(bg_pid fix)"
	tell fix
	wait_bg fix
	fsn stats g --json
	assert_json '.[0].functions[] | [.name, .library, .calls, .returns]' '["ovl_open","[overlay]",1,1]'
	fsn list functions g --json
	assert_json '.[0].functions[] | [.library, .args]' \
		'["[overlay]",["struct inode *inode","struct file *file"]]'
	fsn detach g
}

@test "kernel: a kernel without function probes gives an error with the reason" {
	[[ -r /sys/kernel/btf/vmlinux ]] || skip "this kernel has no BTF"
	[[ ! -e /sys/bus/event_source/devices/kprobe ]] || skip "this kernel has kprobes"
	fsn -s 1 attach g k:vfs_read
	assert_stderr_match "cannot probe 'vfs_read' in .kernel.: this kernel has no .*no kprobes .CONFIG_KPROBE_EVENTS.$"
	fsn -s 1 attach g 'k:vfs_*'
	assert_stderr_match "no kernel function can be probed: 'vfs_.*this kernel has no "
	fsn list --json
	assert_eq "$output" '{"version":1,"groups":[]}'
}

# Each in an emulated kernel takes its seconds: make check-vm T=28-kernel runs it.
@test "kernel: bcc's one-liners on functions work as run commands" {
	local line page=$BATS_TEST_DIRNAME/../man/examples/bcc.txt tried=0

	need_kprobes
	start_bg fix "$FIX/syscalls" --wait waiting 1
	wait_ready fix
	while IFS= read -r line; do
		line=$(sed -E "s/-p 181/-p $(bg_pid fix)/; s/-i [15]/-i 0.5/; s/ -d 10//; s/-c 1/-c 0/" <<<"$line")
		echo "# $line"
		eval "start_bg run '$FUNCSNOOP' $line"
		# A program for each function is verified: a second each where it is emulated.
		poll_until -t 60 grep -q 'attached to' "$(bg_err run)"
		"$FIX/syscalls" threads 1 1
		kill -INT "$(bg_pid run)"
		wait_bg run
		((tried += 1))
		[[ $line != *vfs* || $line == *-p* ]] ||
			grep -qE '^(Function = )?vfs_[a-z_]+' "$(bg_out run)" ||
			fail "what is shown by: $line"
	done < <(sed -n 's/^# funcsnoop \(run .*\bk:.*\)/\1/p' "$page")
	assert_eq "$tried" 16
	stop_bg -KILL fix
}
