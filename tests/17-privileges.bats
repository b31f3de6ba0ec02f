# SPDX-License-Identifier: BSD-2-Clause
# Which capability each command needs, and that the lines of the manual that say how to give
# them work as they stand.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so
MAN=$BATS_TEST_DIRNAME/../man/funcsnoop.8
README=$BATS_TEST_DIRNAME/../README.md

# A command as user 1 with these capabilities and no other.
with_caps() { # [-s STATUS] CAPS CMD...: CAPS as ,+bpf,+perfmon
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	capture "${opts[@]}" setpriv --reuid 1 --regid 1 --clear-groups \
		"--bounding-set=-all$1" "--inh-caps=-all$1" "--ambient-caps=-all$1" "${@:2}"
}

# An own bpffs of user 1.
need_own_bpffs() {
	need_bpf
	need_tool setpriv
	OWN=$BATS_TEST_TMPDIR/own
	mkdir "$OWN"
	mount -t bpf bpf "$OWN"
	chown 1 "$OWN"
	chmod 0700 "$OWN"
	# The way to it, to the program and to the fixtures.
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
	with_caps -s any "" test -w "$OWN" -a -x "$FUNCSNOOP" -a -r "$LIB"
	((status == 0)) || skip "users cannot reach the build folder"
}

teardown() {
	local own=$BATS_TEST_TMPDIR/own

	if mountpoint -q "$own"; then
		[[ ! -d $own/funcsnoop ]] ||
			find "$own/funcsnoop" -mindepth 1 -depth -delete
		umount -l "$own"
	fi
	common_teardown
}

attach_own() { # [-s STATUS] CAPS ARG...
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	with_caps "${opts[@]}" "$1" "$FUNCSNOOP" --bpffs "$OWN" attach g fix_add --lib "$LIB" \
		"${@:2}"
}

@test "privileges: CAP_BPF and CAP_PERFMON are enough for session and multi links" {
	local kind

	need_own_bpffs
	for kind in session multi; do
		need_link $kind
		attach_own ,+bpf,+perfmon --link $kind --exit return
		with_caps "" "$FUNCSNOOP" --bpffs "$OWN" list --json
		assert_json '.[0].link' "$kind"
		capture "$FIX/call" add 3
		with_caps "" "$FUNCSNOOP" --bpffs "$OWN" stats --json
		assert_json '.[0].functions[0] | [.calls, .returns]' '[3,3]'
		with_caps ,+bpf "$FUNCSNOOP" --bpffs "$OWN" reset g
		with_caps "" "$FUNCSNOOP" --bpffs "$OWN" set g --slow 1s
		with_caps "" "$FUNCSNOOP" --bpffs "$OWN" list inflight
		with_caps "" "$FUNCSNOOP" --bpffs "$OWN" detach g
		assert_eq "$(find "$OWN/funcsnoop" -mindepth 1)" ""
	done
}

@test "privileges: perf links need CAP_SYS_ADMIN, and the hint names it" {
	need_own_bpffs
	need_link perf
	attach_own -s 1 ,+bpf,+perfmon --link perf
	assert_stderr_match "cannot make a probe at offset .*: Permission denied"
	assert_stderr_match "^hint: needs CAP_SYS_ADMIN; try with sudo$"
	assert_eq "$(find "$OWN/funcsnoop" -mindepth 1)" ""
	attach_own ,+bpf,+perfmon,+sys_admin --link perf
	with_caps "" "$FUNCSNOOP" --bpffs "$OWN" detach g
}

@test "privileges: the hint names the missing capability" {
	need_own_bpffs
	attach_own -s 1 ,+bpf
	assert_stderr "funcsnoop attach: cannot attach group 'g': cannot load programs into the kernel: Operation not permitted
hint: needs CAP_PERFMON; try with sudo"
	attach_own -s 1 ,+perfmon
	assert_stderr_match "^hint: needs CAP_BPF; try with sudo$"
	attach_own -s 1 ""
	assert_stderr_match "^hint: needs CAP_BPF and CAP_PERFMON; try with sudo$"
	with_caps ,+bpf "$FUNCSNOOP" --bpffs "$OWN" feature
	assert_output_match "^hint: attaching needs CAP_PERFMON; try with sudo$"
	with_caps ,+bpf,+perfmon "$FUNCSNOOP" --bpffs "$OWN" feature
	refute_output_match "^hint: attaching needs"
	[[ ! -e $OWN/funcsnoop ]] || fail "who cannot attach made the folder"
}

@test "privileges: root without a capability gets no hint to become root" {
	need_bpf
	capture -s 1 setpriv --bounding-set -bpf,-sys_admin --inh-caps -bpf,-sys_admin \
		"$FUNCSNOOP" attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: needs CAP_BPF, which this root was started without"
	refute_stderr_match sudo
}

@test "privileges: distinguishes a container's user namespace from host capabilities" {
	need_own_bpffs
	capture -s any unshare --user --map-root-user true
	((status == 0)) || skip "no user namespaces here"
	capture -s 1 unshare --user --map-root-user "$FUNCSNOOP" attach g fix_add --lib "$LIB"
	assert_stderr_match "^hint: needs CAP_BPF and CAP_PERFMON of the host, not of a container"
	capture unshare --user --map-root-user "$FUNCSNOOP" feature
	assert_output_match "^CAP_BPF +no "
	assert_output_match "^hint: attaching needs capabilities of the host"
}

@test "privileges: other users' processes need CAP_SYS_PTRACE, and the hint names it" {
	need_own_bpffs
	start_bg other setpriv --reuid 2 --regid 2 --clear-groups "$FIX/call" --wait add 3
	wait_ready other
	attach_own -s 1 ,+bpf,+perfmon --pid "$(bg_pid other)"
	assert_stderr_match "cannot enter the root of process $(bg_pid other): Permission denied"
	assert_stderr_match "^hint: needs CAP_SYS_PTRACE; try with sudo$"
	attach_own ,+bpf,+perfmon,+sys_ptrace --pid "$(bg_pid other)"
	tell other
	wait_bg other
	with_caps "" "$FUNCSNOOP" --bpffs "$OWN" stats --json
	assert_json '.[0].functions[0] | [.calls, .returns]' '[3,3]'
	with_caps "" "$FUNCSNOOP" --bpffs "$OWN" detach g
}

# Runs a command of the manual with the user, directory and program of this machine.
run_line() { # LINE
	local line=$1 own=$BATS_TEST_TMPDIR/own

	line=${line//\/run\/funcsnoop/$own}
	line=${line//svc/daemon}
	line=${line// funcsnoop / $FUNCSNOOP }
	capture bash -c "$line"
}

# Commands of the section PRIVILEGES, without the prompt.
manual_lines() {
	sed -n '/^\.Sh PRIVILEGES/,/^\.Sh ENV/p' "$MAN" | sed -n 's/^# //p'
}

@test "privileges: the manual's commands for a user without root work" {
	local line cnt=0

	need_bpf
	need_tool setpriv
	getent passwd daemon >/dev/null || skip "no user daemon"
	[[ -n $("$FUNCSNOOP" attach libc c:getaddrinfo --dry-run) ]] || skip "no libc to probe"
	need_link multi
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
	while IFS= read -r line; do
		run_line "$line"
		case $line in
		*attach*) assert_output_match "^libc: 1 function of .*/libc\.so\.6" ;;
		*stats*) assert_output_match "^libc since " ;;
		esac
		((++cnt))
	done < <(manual_lines | grep -v '/usr/.*bin')
	assert_eq "$cnt" 7 "lines that were run"
	assert_eq "$(find "$BATS_TEST_TMPDIR/own/funcsnoop" -mindepth 1)" ""
}

@test "privileges: the README has the same setpriv command as the manual" {
	grep -qxF -e "$(manual_lines | grep 'setpriv.* attach ')" "$README"
}

# A copy of the program that gives its user capabilities: $CAPPED. The other is plain.
make_capped() {
	need_bpf
	need_tool setcap setpriv
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
	CAPPED=$BATS_TEST_TMPDIR/funcsnoop-svc PLAIN=$BATS_TEST_TMPDIR/plain
	install -g 1 -m 0750 "$FUNCSNOOP" "$CAPPED"
	install -g 1 -m 0750 "$FUNCSNOOP" "$PLAIN"
	setcap cap_bpf,cap_perfmon=ep "$CAPPED" || skip "no file capabilities here"
}

as_user() { # [-s STATUS] UID CMD...
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	# Through env: setpriv itself has root's rights up to its exec.
	capture "${opts[@]}" setpriv --reuid "$1" --regid "$1" --clear-groups env "${@:2}"
}

@test "privileges: with file capabilities, users' presets and environment are ignored" {
	local config=$BATS_TEST_TMPDIR/config

	make_capped
	mkdir -p "$config/funcsnoop/presets"
	echo '{ "zzmine_sym": { "f": "f" }, "lib": "c" }' >"$config/funcsnoop/presets/zzmine.json"
	chmod -R o+rX "$config"
	# The plain program reads this file...
	as_user 1 XDG_CONFIG_HOME="$config" "$PLAIN" list presets
	assert_output_match '^zzmine '
	as_user -s 1 1 FUNCSNOOP_BPFFS=/nowhere "$PLAIN" list
	assert_stderr_match "cannot open bpffs directory '/nowhere'"
	# ...the other does not.
	as_user 1 XDG_CONFIG_HOME="$config" HOME="$config" "$CAPPED" list presets
	refute_output_match zzmine
	assert_output_match '^cuda '
	as_user -s 1 1 XDG_CONFIG_HOME="$config" "$CAPPED" attach zzmine --dry-run
	as_user -s any 1 FUNCSNOOP_BPFFS=/nowhere "$CAPPED" list
	refute_stderr_match nowhere
	# The capabilities are there, and the program is its group's alone.
	as_user 1 "$CAPPED" feature
	assert_output_match '^CAP_BPF +yes'
	assert_output_match '^CAP_PERFMON +yes'
	as_user -s 126 2 "$CAPPED" feature
}

@test "privileges: with file capabilities, users of the program's group can attach" {
	make_capped
	need_link multi
	need_own_bpffs
	as_user 1 "$CAPPED" --bpffs "$OWN" attach g fix_add --lib "$LIB"
	capture "$FIX/call" add 4
	as_user 1 "$PLAIN" --bpffs "$OWN" stats --json
	assert_json '.[0].functions[0].calls' 4
	as_user 1 "$PLAIN" --bpffs "$OWN" detach g
}
