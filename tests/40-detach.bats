# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop detach: when it ends nothing is left and nothing fires.
# bats file_tags=bpf

load helpers

groups() { # names, space between them
	"$FUNCSNOOP" list --json | jq -r 'map(.name) | join(" ")'
}

@test "detach: removes the named groups without output" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn attach b fix_add --lib "$FIX/libfix.so"
	fsn attach c fix_add --lib "$FIX/libfix.so"
	fsn detach c a
	assert_output ""
	assert_stderr ""
	assert_eq "$(groups)" "b"
	capture "$FIX/call" add 10
	assert_numbers b "fix_add 10 0 10 0 0 0"
	fsn detach b --json
	assert_output '{"version":1}'
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
}

@test "detach: --all removes all groups and succeeds if there are none" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn attach b eng_leaf --lib "$FIX/libengine.so"
	fsn detach --all
	assert_output ""
	assert_eq "$(groups)" ""
	fsn detach --all
	assert_output ""
	assert_stderr ""
	fsn detach -a --json
	assert_output '{"version":1}'
}

@test "detach: an unknown group prevents the removal of the other named groups" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn attach b fix_add --lib "$FIX/libfix.so"
	fsn -s 1 detach a nosuch b
	assert_stderr "funcsnoop detach: no group 'nosuch' is attached
hint: 'funcsnoop list' shows what is attached"
	assert_eq "$(groups)" "a b"
	fsn -s 1 detach nosuch --json
	assert_json .error 'no group '\''nosuch'\'' is attached'
	fsn detach a b
}

@test "detach: a group that is named twice is removed once" {
	need_bpf
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn detach a a
	assert_eq "$(groups)" ""
}

@test "detach: requires groups or --all, but not both" {
	fsn -s 2 detach
	assert_output ""
	assert_stderr "funcsnoop detach: needs either groups or --all
hint: 'funcsnoop help detach' shows the usage"
	fsn -s 2 detach --all a
	fsn -s 2 detach --json
	assert_json .error 'needs either groups or --all'
}

@test "detach: a name that is not a group is an error and touches nothing else" {
	need_bpf
	mkdir "$FUNCSNOOP_BPFFS/outside"
	fsn attach a fix_add --lib "$FIX/libfix.so"
	fsn -s 1 detach ../outside
	fsn -s 1 detach .
	fsn -s 1 detach ""
	fsn -s 1 detach 'a~'
	assert_eq "$(groups)" "a"
	rmdir "$FUNCSNOOP_BPFFS/outside"
	fsn detach a
}

# The counters are pinned at another place too, and outlive the group: no late hit changes
# them, however many calls are under way.
nothing_fires() { # MODE EXIT
	local kept=$FUNCSNOOP_BPFFS/kept first

	need_link "$1"
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so" --link "$1" --exit "$2"
	start_bg call "$FIX/call" --threads 4 --until-line add
	wait_line call "^running "
	some_calls() {
		fsn list g --json
		[[ $(json '.[0].calls') -gt 500 ]]
	}
	poll_until some_calls
	capture bpftool -j map show pinned "$FUNCSNOOP_BPFFS/funcsnoop/g/stats"
	capture bpftool map pin id "$(json .id)" "$kept"
	fsn detach g
	capture bpftool -j map dump pinned "$kept"
	first=$output
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	capture bpftool -j map dump pinned "$kept"
	assert_output "$first"
	rm "$kept"
	tell call
	wait_bg call
	assert_output_match "wrong=0$"
	# With the last pin the last map goes.
	if [[ -z ${FSN_SHARED-} ]]; then
		poll_until no_new_objects
	fi
}

@test "detach: no probe fires afterwards, at full load (session, return)" {
	nothing_fires session return
}

@test "detach: no probe fires afterwards, at full load (multi, ret)" {
	nothing_fires multi ret
}

@test "detach: no probe fires afterwards, at full load (perf, return)" {
	nothing_fires perf return
}

@test "detach: no probe fires afterwards, at full load (perf, ret)" {
	nothing_fires perf ret
}

@test "detach: leaves no link, BPF program, map or pin of the group" {
	local pin ids=() kind

	need_bpf
	need_tool bpftool
	fsn attach g fix_add fix_ret --lib "$FIX/libfix.so"
	for pin in "$FUNCSNOOP_BPFFS"/funcsnoop/g/*; do
		kind=map
		[[ ${pin##*/} != link_* ]] || kind='link'
		# bpftool 7.5 shows a link and then ends with status 255.
		capture -s any bpftool -j "$kind" show pinned "$pin"
		assert_json_true '.id > 0'
		ids+=("$kind $(json .id)")
		[[ $kind != link ]] || ids+=("prog $(json .prog_id)")
	done
	((${#ids[@]} > 10)) || fail "few objects: ${ids[*]}"
	fsn detach g
	for pin in "${ids[@]}"; do
		read -r kind pin <<<"$pin"
		! bpftool "$kind" show id "$pin" >/dev/null 2>&1 || fail "$kind $pin is left"
	done
	assert_eq "$(find "$FUNCSNOOP_BPFFS/funcsnoop" -mindepth 1)" ""
}

@test "detach: reports a link held by another process after a bounded wait" {
	local kept=$FUNCSNOOP_BPFFS/kept

	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so" --exit none
	bpftool link pin pinned "$FUNCSNOOP_BPFFS/funcsnoop/g/link_0" "$kept"
	fsn -s 1 detach g
	assert_eq "$(sed 's/id [0-9]*/id N/' <<<"$stderr")" \
		"funcsnoop detach: 1 of the probes' links of 'g' are held by somebody else
hint: 'bpftool -f link show id N' shows the process or pin; they count until it is gone"
	rm "$kept"
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
}

# A process that dies while the kernel takes away breakpoints leaves them where they are.
killed_while_closing() { # SIGNAL MODE EXIT ROUNDS
	local lib=$BATS_TEST_TMPDIR/libfix.so.1 folder=$FUNCSNOOP_BPFFS/funcsnoop i

	need_link "$2"
	cp "$(realpath "$FIX/libfix.so")" "$lib"
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR start_bg call "$FIX/call" --wait-end add 1
	wait_line call "^done "
	for ((i = 0; i < $4; i++)); do
		fsn attach g 'fix_*' --lib "$lib" --link "$2" --exit "$3"
		! code_is_whole "$(bg_pid call)" "$lib" >/dev/null || fail "nothing is probed"
		start_bg detach "$FUNCSNOOP" detach g
		while [[ -e $folder/g/link_0 || -e $folder/g~/link_0 ]]; do :; done
		kill "-$1" "$(bg_pid detach)" 2>/dev/null || true # it may have been quicker
		wait_bg -s any detach
		fsn reset # takes the lock, and goes on where detach stopped
		# Not at once: who lists links (others may) holds each for a moment.
		poll_until code_is_whole "$(bg_pid call)" "$lib" >/dev/null ||
			fail "probes are left in round $i"
		assert_eq "$(ls "$folder")" ""
	done
	tell call
	wait_bg call
}

@test "detach: killed while it removes probes, it leaves none (session)" {
	killed_while_closing KILL session return 10
}

@test "detach: killed while it removes probes, it leaves none (multi)" {
	killed_while_closing KILL multi ret 10
}

@test "detach: killed while it removes probes, it leaves none (perf)" {
	killed_while_closing KILL perf return 2
}

@test "detach: terminated while it removes probes, it leaves none" {
	killed_while_closing TERM session return 10
}

# A program in a call whose return group b probes. Since 6.13 the kernel waits for it when it frees a link
# of any group.
long_call() {
	need_tool cc
	cc -O1 -x c -o "$BATS_TEST_TMPDIR/own" - <<-'END'
		#include <stdio.h>
		#include <unistd.h>
		__attribute__((noinline)) void often(void) { __asm__ volatile(""); }
		__attribute__((noinline)) void other(void) { __asm__ volatile(""); }
		__attribute__((noinline)) void whole(void)
		{
			puts("ready");
			fflush(stdout);
			for (int i = 0; i < 60000; i++, usleep(1000))
				often();
			other();
		}
		int main(void) { whole(); return 0; }
	END
	fsn attach b "$BATS_TEST_TMPDIR/own:often" "$BATS_TEST_TMPDIR/own:whole" --exit return
	start_bg own "$BATS_TEST_TMPDIR/own"
	wait_line own ready
	fsn attach a "$BATS_TEST_TMPDIR/own:other"
}

@test "detach, run: do not wait for the calls of other groups that are in progress" {
	long_call
	capture timeout -s KILL 20 "$FUNCSNOOP" detach a
	capture timeout -s KILL 20 "$FUNCSNOOP" run -d 0.1 "$BATS_TEST_TMPDIR/own:other"
	fsn stats b --json
	assert_json '.[0].functions[] | select(.name == "whole") | .in_flight' 1
	stop_bg own
	fsn detach b
}

@test "detach: killed with its helper process, it holds no lock until calls of others return" {
	local folder=$FUNCSNOOP_BPFFS/funcsnoop from helper

	long_call
	start_bg detach "$FUNCSNOOP" detach a
	while [[ -e $folder/a/link_0 || -e $folder/a~/link_0 ]]; do :; done
	sleep 0.3
	helper=$(cat "/proc/$(bg_pid detach)/task"/*/children 2>/dev/null) || true
	# shellcheck disable=SC2086	# none before 6.13
	kill -KILL "$(bg_pid detach)" $helper 2>/dev/null || true
	wait_bg -s any detach
	from=$EPOCHREALTIME
	capture timeout -s KILL 10 "$FUNCSNOOP" reset
	assert_between $(((${EPOCHREALTIME/./} - ${from/./}) / 1000)) 0 1900 "ms until the lock is free and 'a~' gone"
	assert_eq "$(ls "$folder")" b
	stop_bg own
	fsn detach b
}
