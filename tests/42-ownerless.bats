# SPDX-License-Identifier: BSD-2-Clause
# Orphaned breakpoints: a command killed together with its helper process leaves the
# breakpoints of links that were being created or closed; the next command removes them.
# bats file_tags=bpf

load helpers

FOLDER=$FUNCSNOOP_BPFFS/funcsnoop
PROCS=16
ROUNDS=60

# Thousands of probes in one link, so that there is a middle to be killed in.
setup() {
	common_setup
	need_bpf
	LIB=$BATS_TEST_TMPDIR/libstdc++.so.6
	cp "$(realpath "$(c++ -print-file-name=libstdc++.so.6)")" "$LIB"
	MODE=multi
}

# Processes that have the library and do nothing; CALLED is the pid of the last.
start_called() {
	need_link "$MODE"
	LD_PRELOAD=$LIB start_bg call "$FIX/call" --wait --procs $PROCS --quiet add 1
	wait_ready call
	CALLED=$(sed -n 's/^child //p' "$(bg_out call)" | tail -n 1)
}

end_called() {
	tell call
	wait_bg call
}

# Whether no process has a breakpoint: each has the code that the file has.
all_whole() {
	local pid

	for pid in $(sed -n 's/^child //p' "$(bg_out call)"); do
		code_is_whole "$pid" "$LIB" >/dev/null || return
	done
}

# The processes that NAME's command has made to do its work apart.
apart_of() { # NAME
	sed -n "s/^\([0-9]*\) (funcsnoop-apart) . $(bg_pid "$1") .*/\1/p" /proc/[0-9]*/stat 2>/dev/null || true
}

# All at once, as the end of a container or a cgroup does it.
kill_all() { # NAME
	local apart

	apart=$(apart_of "$1")
	# shellcheck disable=SC2086	# perhaps none
	kill -KILL "$(bg_pid "$1")" $apart 2>/dev/null || true
	wait_bg -s any "$1"
	# shellcheck disable=SC2086
	poll_until dead $apart
}

dead() { # PID...
	local pid

	for pid; do
		[[ ! -e /proc/$pid ]] || return
	done
}

# Kills an attach while it probes, until it has left breakpoints behind: not each time does.
leave_of_attach() {
	local i

	for ((i = 0; i < ROUNDS; i++)); do
		start_bg attach "$FUNCSNOOP" attach g '*' --force --lib "$LIB" --link "$MODE"
		until [[ -n $(apart_of attach) ]] || bg_ended attach; do :; done
		while code_is_whole "$CALLED" "$LIB" >/dev/null; do
			! bg_ended attach || break
		done
		kill_all attach
		[[ ! -d $FOLDER/g ]] && ! all_whole && return
		fsn detach --all
	done
	skip "in $ROUNDS rounds no breakpoint was left"
}

# The same for a detach, after the link has left its directory.
leave_of_detach() {
	local i

	for ((i = 0; i < ROUNDS; i++)); do
		fsn attach g '*' --force --lib "$LIB" --link "$MODE"
		start_bg detach "$FUNCSNOOP" detach g
		while [[ -e $FOLDER/g/link_0 || -e $FOLDER/g~/link_0 ]]; do :; done
		kill_all detach
		! all_whole && return
		fsn detach --all
	done
	skip "in $ROUNDS rounds no breakpoint was left"
}

@test "orphans: the next command removes breakpoints of a killed detach" {
	start_called
	leave_of_detach
	fsn stats
	all_whole || fail "breakpoints are left"
	assert_eq "$(ls "$FOLDER")" ""
	end_called
}

# A link for each probe: the kernel takes long for each, and some are still pinned.
@test "orphans: a killed detach of many links leaves no breakpoint (perf)" {
	MODE=perf
	LIB=$BATS_TEST_TMPDIR/libfix.so.1
	cp "$(realpath "$FIX/libfix.so")" "$LIB"
	start_called
	leave_of_detach
	fsn stats
	all_whole || fail "breakpoints are left"
	assert_eq "$(ls "$FOLDER")" ""
	end_called
}

@test "orphans: breakpoints are removed even if their file is gone" {
	start_called
	leave_of_attach
	mv "$LIB" "$LIB.kept"
	cp "$LIB.kept" "$LIB.copy"
	rm "$LIB.kept"
	fsn list
	mv "$LIB.copy" "$LIB" # to be compared with
	all_whole || fail "breakpoints are left"
	end_called
}

# Without the right to load programs nothing can be done, but who can finds it all there.
@test "orphans: breakpoints stay for the next command that may remove them" {
	need_tool setpriv
	start_called
	leave_of_attach
	capture setpriv --bounding-set -bpf,-sys_admin,-perfmon --inh-caps -all \
		"$FUNCSNOOP" list
	! all_whole || fail "nothing is left: what did it?"
	fsn list
	all_whole || fail "breakpoints are left"
	assert_stderr "funcsnoop list: nothing is attached"
	assert_eq "$(ls "$FOLDER")" ""
	end_called
}

# A file that lies nowhere is opened through a process that has it, which takes privilege.
@test "orphans: breakpoints that cannot be removed are reported with their processes" {
	need_tool setpriv
	start_called
	leave_of_attach
	rm "$LIB"
	capture setpriv --bounding-set -sys_admin,-checkpoint_restore --inh-caps -all \
		"$FUNCSNOOP" list
	assert_stderr_match \
		"^funcsnoop list: process $CALLED \(call\) has [1-9][0-9]* orphaned breakpoints\$"
	assert_stderr_match "^hint: a command was killed while it changed probes"
	assert_eq "$(ls "$FOLDER")" ""
	end_called
}

@test "orphans: breakpoints of a live group stay when those of a dead one are removed" {
	start_called
	fsn attach lives '*' --force --lib "$LIB" --count --link multi
	start_bg attach "$FUNCSNOOP" attach g '*' --force --lib "$LIB"
	until [[ -n $(apart_of attach) ]] || bg_ended attach; do :; done
	poll_until stage_has_breaks
	kill_all attach
	fsn list --json
	assert_json 'map(.name) - ["g"]' '["lives"]'
	! code_is_whole "$CALLED" "$LIB" >/dev/null || fail "the group's breakpoints are gone"
	fsn detach --all
	all_whole || fail "breakpoints are left"
	end_called
}

stage_has_breaks() {
	[[ -e $FOLDER/g~/breaks || -e $FOLDER/g/breaks ]] || bg_ended attach
}
