#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Flags, modes, signals and errors of system calls by name; strace is the truth.

# shellcheck disable=SC2016,SC2154

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
	need_tracefs
}

# Lines "CALL ARG NAME|NAME" of stdin, each once, with their names in order.
sorted_names() {
	python3 -c 'import sys
for line in sorted({" ".join(w[:-1] + ["|".join(sorted(w[-1].split("|")))]) for w in map(str.split, sys.stdin)}):
	print(line)'
}

@test "system calls: flags, modes and commands have the names that strace prints" {
	local st=$BATS_TEST_TMPDIR/strace out=$BATS_TEST_TMPDIR/run.json prog

	need_tool strace python3 jq
	prog='
import fcntl, mmap, os, signal, socket, sys
d = sys.argv[1]
f = os.open(d + "/f", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o640)
fcntl.fcntl(f, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.lseek(f, 0, os.SEEK_END)
os.mkdir(d + "/made", 0o701)
os.access(d, os.R_OK | os.X_OK)
mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close()
os.chmod(d + "/f", 0o600)
os.rmdir(d + "/made")
os.unlink(d + "/f")
os.kill(os.getpid(), signal.SIGCONT)
'
	capture strace -X abbrev -e trace=open,openat,mkdir,access,mmap,mprotect,socket,fcntl,flock,lseek,chmod,kill \
		-o "$st" python3 -S -c "$prog" "$BATS_TEST_TMPDIR"
	capture "$FUNCSNOOP" run s:open s:openat s:mkdir s:access s:mmap s:mprotect s:socket s:fcntl s:flock \
		s:lseek s:chmod s:kill --stream --json --quiet -o "$out" -- python3 -S -c "$prog" "$BATS_TEST_TMPDIR"
	output=$(jq -r 'select(.type == "call") | .function as $f | .args
		| {openat: ["flags"], mkdir: ["mode"], access: ["mode"], mmap: ["prot", "flags"], mprotect: ["prot"],
			socket: ["family", "type"], fcntl: ["cmd"], flock: ["cmd"], lseek: ["whence"], chmod: ["mode"],
			kill: ["sig"]}[$f][] as $a | "\($f) \($a) \(.[$a])"' "$out" | sorted_names)
	assert_eq "$output" "$(sed -nE '
		s/^openat\(AT_FDCWD, "[^"]*", ([A-Z_|]+).*/openat flags \1/p
		s/^mkdir\("[^"]*", ([0-7]+)\).*/mkdir mode \1/p
		s/^access\("[^"]*", ([A-Z_|]+)\).*/access mode \1/p
		s/^mprotect\([^,]*, [0-9]+, ([A-Z_|]+)\).*/mprotect prot \1/p
		s/^socket\(([A-Z_0-9]+), ([A-Z_|]+),.*/socket family \1\nsocket type \2/p
		s/^fcntl\([0-9]+, ([A-Z_]+).*/fcntl cmd \1/p
		s/^flock\([0-9]+, ([A-Z_|]+).*/flock cmd \1/p
		s/^lseek\([0-9]+, [0-9]+, ([A-Z_]+).*/lseek whence \1/p
		s/^chmod\("[^"]*", ([0-7]+)\).*/chmod mode \1/p
		s/^kill\([0-9]+, ([A-Z]+)\).*/kill sig \1/p
		s/^mmap\([^,]*, [0-9]+, ([A-Z_|]+), ([A-Z_|]+),.*/mmap prot \1\nmmap flags \2/p' "$st" |
		sorted_names)"
}

@test "system calls: errors have their description in text, and their name in JSON" {
	local out=$BATS_TEST_TMPDIR/out

	capture -s 1 "$FUNCSNOOP" run s:openat --stream --failed -- cat /nonexistent/file
	assert_stderr_match 'openat\(dfd=AT_FDCWD, filename="/nonexistent/file", flags=O_RDONLY, mode=0\) = -2 ENOENT \(No such file or directory\) '
	capture -s 1 "$FUNCSNOOP" run s:openat --stream --json --failed -o "$out" -- cat /nonexistent/file
	assert_eq "$(jq -r 'select(.args.filename == "/nonexistent/file") | .ret_name' "$out")" ENOENT
}

@test "system calls: a key that is flags is shown by names" {
	capture -s 1 "$FUNCSNOOP" run s:openat --key flags --by flags -- cat /nonexistent/file
	assert_stderr_match 'O_RDONLY\|O_CLOEXEC .*[0-9]'
	assert_stderr_match 'O_RDONLY +1 '
}

@test "tracepoints: a signal has its name" {
	local out=$BATS_TEST_TMPDIR/out

	capture "$FUNCSNOOP" run t:signal:signal_deliver --stream --json -o "$out" -- \
		sh -c 'trap : USR1; kill -USR1 $$'
	assert_eq "$(jq -r 'select(.comm == "sh") | .args.sig' "$out" | sort -u)" SIGUSR1
}

@test "tracepoints: signals of timers are delivered in the process, and generated in any other" {
	local out=$BATS_TEST_TMPDIR/out

	capture -s 124 "$FUNCSNOOP" run t:signal:signal_generate --stream --json -o "$out" -- timeout 0.1 sleep 9
	assert_stderr_match ' use (t:signal:signal_deliver) for those that it gets$'
	capture -s 124 "$FUNCSNOOP" run t:signal:signal_deliver --stream --json -o "$out" -- timeout 0.1 sleep 9
	refute_stderr_match 'signal_generate'
	assert_eq "$(jq -r 'select(.comm == "timeout").args.sig' "$out" | grep ALRM)" SIGALRM
}
