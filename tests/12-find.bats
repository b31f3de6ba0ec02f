# SPDX-License-Identifier: BSD-2-Clause
# Which files a --lib means: containers, overlays, deleted and swapped files, wheels, copies.
# bats file_tags=bpf
#
# The library has a name of its own here, libonlyhere, which no other process of the machine
# can have mapped. Its soname is libfix.so.1: if preloaded, it is the library that the fixture
# `call` uses.

load helpers

REAL=$FIX/libfix.so.1
HERE='' # where mounts are made, in the mount namespace of tests/run

setup() {
	common_setup
	HERE=$BATS_TEST_TMPDIR/here
	mkdir "$HERE"
}

# A program that waits with libonlyhere mapped; it makes N calls of fix_add after `tell`.
start_with() { # NAME LIBRARY N [WRAPPER...]
	start_bg "$1" "${@:4}" env LD_PRELOAD="$2" "$FIX/call" --wait add "$3"
	wait_ready "$1"
}

run_on() { # NAME
	tell "$1"
	wait_bg "$1"
	assert_output_match "wrong=0$"
}

libraries() { # of the group that $output tells of
	json '.[0].functions | map(.library) | unique[]'
}

# shellcheck disable=SC2016
private_tmpfs() { # FOLDER CMD...: CMD, in a mount namespace that alone has the library there
	exec unshare --mount --propagation private bash -c \
		'mount -t tmpfs t "$0" && cp "$1" "$0/libonlyhere.so.1" && shift && exec "$@"' \
		"$1" "$REAL" "${@:2}"
}

make_chroot() { # FOLDER: with this system's libraries, and `call` in /app
	local d

	mkdir -p "$1/app" "$1/proc"
	mount --bind /proc "$1/proc"
	for d in /usr /lib /lib64; do
		if [[ -L $d ]]; then
			cp -P "$d" "$1/"
		elif [[ -d $d ]]; then
			mkdir "$1$d"
			mount --bind "$d" "$1$d"
		fi
	done
	cp "$FIX/call" "$REAL" "$1/app/"
}

# --- overlayfs ------------------------------------------------------------------------------

overlay() { # NAME: $HERE/NAME over the folder $HERE/layers/lower
	mkdir -p "$HERE/layers/upper-$1" "$HERE/layers/work-$1" "$HERE/$1"
	mount -t overlay overlay "$HERE/$1" -o \
		"lowerdir=$HERE/layers/lower,upperdir=$HERE/layers/upper-$1,workdir=$HERE/layers/work-$1"
}

need_overlay() {
	need_bpf
	mkdir "$HERE/layers"
	mount -t tmpfs tmpfs "$HERE/layers"
	mkdir "$HERE/layers/lower"
	cp "$REAL" "$HERE/layers/lower/libonlyhere.so.1"
	overlay one 2>/dev/null || skip "no overlayfs here"
}

@test "find: a library on overlayfs is found by process, name and path" {
	local lib=$HERE/one/libonlyhere.so.1

	need_overlay
	start_with early "$lib" 10
	fsn attach by-pid fix_add --lib onlyhere --pid "$(bg_pid early)" --json
	assert_eq "$(libraries)" "$lib"
	fsn attach by-name fix_add --lib libonlyhere.so.1 --json
	assert_eq "$(libraries)" "$lib"
	fsn attach by-path fix_add --lib "$lib" --json
	assert_eq "$(libraries)" "$lib"
	run_on early
	start_with late "$lib" 3
	run_on late
	assert_numbers by-pid "fix_add 10 0 10 0 0 0"
	assert_numbers by-name "fix_add 13 0 13 0 0 0"
	assert_numbers by-path "fix_add 13 0 13 0 0 0"
	fsn list --json
	assert_json 'map(.stale) | unique' '[false]'
	fsn detach --all
}

# An overlay whose layers are on two file systems puts a number of the layer into inodes.
overlay_of_two() { # NAME
	mkdir -p "$HERE/$1" "$HERE/other"
	mount -t tmpfs tmpfs "$HERE/other"
	mkdir "$HERE/other/upper" "$HERE/other/work"
	mount -t overlay overlay "$HERE/$1" -o \
		"xino=on,lowerdir=$HERE/layers/lower,upperdir=$HERE/other/upper,workdir=$HERE/other/work"
}

@test "find: a file below an overlay of several file systems is probed once" {
	need_overlay
	overlay_of_two three
	start_with one "$HERE/one/libonlyhere.so.1" 10
	start_with three "$HERE/three/libonlyhere.so.1" 5
	fsn attach g fix_add --lib onlyhere --json
	assert_json '.[0].functions | length' 1
	run_on one
	run_on three
	assert_numbers g "fix_add 15 0 15 0 0 0"
	fsn detach g
}

@test "find: a file below two overlays is probed once, and twice after a copy to one of them" {
	local lower=$HERE/layers/lower/libonlyhere.so.1

	need_overlay
	overlay two
	start_with one "$HERE/one/libonlyhere.so.1" 10
	start_with two "$HERE/two/libonlyhere.so.1" 5
	fsn attach g fix_add --lib onlyhere --lib "$lower" --lib "$HERE/two/libonlyhere.so.1" \
		--json
	assert_json '.[0].functions | length' 1
	run_on one
	run_on two
	assert_numbers g "fix_add 15 0 15 0 0 0"
	fsn detach g
	chmod u+w,g+w "$HERE/two/libonlyhere.so.1" # copies it to the upper layer
	start_with one "$HERE/one/libonlyhere.so.1" 10
	start_with two "$HERE/two/libonlyhere.so.1" 5
	fsn attach g fix_add --lib onlyhere --json
	assert_eq "$(libraries)" "$HERE/one/libonlyhere.so.1
$HERE/two/libonlyhere.so.1"
	run_on one
	run_on two
	fsn stats g --json
	assert_json '.[0].functions | map(.calls) | sort' '[5,10]'
	fsn detach g
}

# --- other mount namespaces -----------------------------------------------------------------

@test "find: a library of another mount namespace is found, shown and counted" {
	local shown pid

	need_bpf
	start_with c "$HERE/libonlyhere.so.1" 10 private_tmpfs "$HERE"
	pid=$(bg_pid c)
	[[ ! -e $HERE/libonlyhere.so.1 ]]
	shown="$HERE/libonlyhere.so.1 (pid $pid's namespace)"
	fsn attach by-pid fix_add --lib onlyhere --pid "$pid" --json
	assert_eq "$(libraries)" "$shown"
	fsn attach by-path fix_add --lib "$HERE/libonlyhere.so.1" --pid "$pid" --json
	assert_eq "$(libraries)" "$shown"
	fsn attach by-name fix_add --lib libonlyhere.so.1 --json
	assert_eq "$(libraries)" "$shown"
	fsn stats by-pid
	assert_output_match "^process $pid maps .*libonlyhere.* and has not called$"
	run_on c
	for g in by-pid by-path by-name; do
		assert_numbers $g "fix_add 10 0 10 0 0 0"
	done
	fsn list --json
	assert_json 'map([.libraries, .stale]) | unique' "[[[\"$shown\"],false]]"
	fsn detach --all
	fsn -s 1 attach g fix_add --lib "$HERE/libonlyhere.so.1"
	assert_stderr_match "libonlyhere.so.1': No such file or directory$"
}

@test "find: a library in a chroot is found by its path inside the chroot" {
	local pid

	need_bpf
	make_chroot "$HERE/root"
	start_bg c chroot "$HERE/root" /app/call --wait add 10
	wait_ready c
	pid=$(bg_pid c)
	fsn attach g fix_add --lib /app/libfix.so.1 --pid "$pid" --json
	assert_eq "$(libraries)" "/app/libfix.so.1 (pid $pid's namespace)"
	run_on c
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn detach g
}

# A process can replace the path of its library by any kind of file.
@test "find: links out of a hostile container, pipes, devices and directories are rejected" {
	local root=$HERE/root lib

	need_bpf
	make_chroot "$root"
	ln -s "$REAL" "$root/app/libabsolute.so"
	ln -s /proc/self/exe "$root/app/libmagic.so"
	ln -s "../../../../../../../../../..$REAL" "$root/app/libdots.so"
	ln -s libloop.so "$root/app/libloop.so"
	ln -s libfix.so.1 "$root/app/libright.so"
	mkfifo "$root/app/libpipe.so"
	mknod "$root/app/libdevice.so" c 1 5
	mkdir "$root/app/libfolder.so"
	start_bg c chroot "$root" /app/call --wait add 10
	wait_ready c
	for lib in absolute magic dots loop pipe device folder; do
		fsn -t 30 -s 1 attach g fix_add --lib "/app/lib$lib.so" --pid "$(bg_pid c)"
		assert_stderr_match "^funcsnoop attach: cannot open '/app/lib$lib.so'|^funcsnoop attach: '/app/lib$lib.so'.* not a regular file"
		assert_eq "$output" ""
	done
	fsn attach g fix_add --lib /app/libright.so --pid "$(bg_pid c)"
	run_on c
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn detach g
}

# --- files that are gone or swapped -----------------------------------------------------------

@test "find: a deleted library is probed through its mapping, for each kind of link" {
	local lib=$HERE/libonlyhere.so.1 link pid

	need_bpf
	for link in session multi perf; do
		# A skip in a subshell does not fail the test.
		(need_link $link >/dev/null && echo y) | grep -q y || continue
		cp "$REAL" "$lib"
		start_with d "$lib" 10
		rm "$lib"
		pid=$(bg_pid d)
		fsn attach g fix_add --lib onlyhere --pid "$pid" --link $link --exit return --json
		assert_eq "$(libraries)" "$lib (deleted, mapped by pid $pid)"
		fsn list --json
		assert_json '.[0].stale' true
		run_on d
		assert_numbers g "fix_add 10 0 10 0 0 0"
		fsn detach g
	done
	cp "$FIX/call" "$HERE/gone"
	start_bg e env LD_LIBRARY_PATH="$FIX" "$HERE/gone" --wait add 10
	wait_ready e
	rm "$HERE/gone"
	pid=$(bg_pid e)
	fsn -s 1 attach g fix_add --lib "/proc/$pid/exe" --pid "$pid"
	assert_stderr_match "^hint: with --pid give a path that /proc/$pid/maps shows"
	run_on e
}

@test "a library replaced on disk: the process's own is probed, or with its path both" {
	local lib=$HERE/libonlyhere.so.1

	need_bpf
	cp "$REAL" "$lib"
	start_with old "$lib" 10
	cp "$FIX/stripped/libfix.so.1" "$lib.new"
	mv "$lib.new" "$lib"
	start_with new "$lib" 4
	fsn attach own fix_add --lib "$lib" --pid "$(bg_pid old)" --json
	assert_eq "$(libraries)" "$lib (deleted, mapped by pid $(bg_pid old))"
	fsn attach both fix_add --lib onlyhere --json
	assert_eq "$(libraries)" "$lib
$lib (deleted, mapped by pid $(bg_pid old))"
	run_on old
	run_on new
	assert_numbers own "fix_add 10 0 10 0 0 0"
	fsn stats both --json
	assert_json '.[0].functions | map(.calls) | sort' '[4,10]'
	fsn detach --all
}

# --- several files ----------------------------------------------------------------------------

@test "find: libraries of Python wheels with hashed names are found in processes" {
	local a=$HERE/site-packages/nvidia/cuda_runtime/lib/libonlyhere-3ab2c1.so.12
	local b=$HERE/env/lib/python3.11/site-packages/some.libs/libonlyhere-5d1e27f4.so.12.8.90

	need_bpf
	mkdir -p "${a%/*}" "${b%/*}"
	cp "$REAL" "$a"
	cp "$REAL" "$b"
	cp "$REAL" "${a%/*}/libonlyhereafter.so.12"
	start_with a "$a" 10
	start_with b "$b" 5
	start_with c "${a%/*}/libonlyhereafter.so.12" 2
	fsn attach g fix_add --lib onlyhere --json
	assert_json '.[0].functions | map(.library) | sort' "[\"$b\",\"$a\"]"
	run_on a
	run_on b
	run_on c
	fsn stats g --json
	assert_json '.[0].functions | map([.calls, .library]) | sort' "[[5,\"$b\"],[10,\"$a\"]]"
	fsn list g --json
	assert_json '.[0].libraries | sort' "[\"$b\",\"$a\"]"
	fsn detach g
}

@test "find: one file under several paths is probed once" {
	local lib=$HERE/a/libonlyhere.so.1

	need_bpf
	mkdir "$HERE/a" "$HERE/b" "$HERE/c"
	cp "$REAL" "$lib"
	ln "$lib" "$HERE/b/libonlyhere.so.1"
	ln -s ../a/libonlyhere.so.1 "$HERE/b/libonlyhere.so"
	mount --bind "$HERE/a" "$HERE/c"
	start_with a "$lib" 10
	start_with b "$HERE/b/libonlyhere.so.1" 5
	start_with c "$HERE/c/libonlyhere.so.1" 3
	fsn attach g fix_add --lib onlyhere --lib "$HERE/b/libonlyhere.so" --lib "$HERE/c/libonlyhere.so.1" \
		--json
	assert_json '.[0].functions | length' 1
	run_on a
	run_on b
	run_on c
	assert_numbers g "fix_add 18 0 18 0 0 0"
	fsn detach g
}

# --- programs -----------------------------------------------------------------------------------

@test "find: a program is found by its name in PATH or in a process" {
	need_bpf
	mkdir "$HERE/bin"
	cp "$FIX/call-static" "$HERE/bin/onlyhere-call"
	PATH=$HERE/bin:$PATH fsn attach g fix_add --lib onlyhere-call --json
	assert_eq "$(libraries)" "$HERE/bin/onlyhere-call"
	fsn -s 1 attach h fix_add --lib onlyhere-call
	assert_stderr_match "^funcsnoop attach: no library or program 'onlyhere-call'$"
	start_bg c "$HERE/bin/onlyhere-call" --wait add 10
	wait_ready c
	fsn attach h fix_add --lib onlyhere-call --pid "$(bg_pid c)"
	run_on c
	assert_numbers g "fix_add 10 0 10 0 0 0"
	assert_numbers h "fix_add 10 0 10 0 0 0"
	fsn detach --all
}

@test "find: the cuda preset counts calls of a runtime that is linked into the program" {
	local static

	need_bpf
	need_tool cc
	static=$(compgen -G '/usr/local/cuda*/lib64/libcudart_static.a' | head -n 1)
	[[ -n $static ]] || skip "no libcudart_static.a on this machine"
	cat >"$HERE/main.c" <<-'END'
	#include <stdio.h>
	extern int cudaMalloc(void **ptr, size_t size), cudaGetDeviceCount(int *cnt);
	int main(void)
	{
		void *ptr;
		int cnt;

		puts("ready ");
		fflush(stdout);
		getchar();
		cudaGetDeviceCount(&cnt);
		for (int i = 0; i < 10; i++)
			cudaMalloc(&ptr, 1 << 20);
		return 0;
	}
	END
	capture cc -o "$HERE/onlyhere" "$HERE/main.c" "$static" -lpthread -ldl -lrt
	fsn attach cuda --lib "$HERE/onlyhere" --json
	assert_json '.[0].functions | map(.library) | unique' "[\"$HERE/onlyhere\"]"
	assert_json_true '.[0].functions | map(select(.refused | not)) | length > 200'
	start_bg c "$HERE/onlyhere"
	wait_ready c
	fsn -s 1 attach cuda --pid "$(bg_pid c)" --name by-pid
	assert_stderr "funcsnoop attach: process $(bg_pid c) has no library 'cudart' mapped
hint: the program has it linked in: --lib $HERE/onlyhere"
	fsn attach cuda --pid "$(bg_pid c)" --name by-pid --lib "$HERE/onlyhere"
	tell c
	wait_bg c
	fsn stats by-pid --json
	assert_json '.[0].functions | map(.calls) | add' 11
	fsn stats cuda --json
	assert_sound
	assert_json '.[0].functions | map(select(.calls > 0) | [.name, .calls, .returns]) | sort' \
		'[["cudaGetDeviceCount",1,1],["cudaMalloc",10,10]]'
	fsn detach cuda by-pid
}

# --- what processes map ---------------------------------------------------------------------

# Each time that ARGS... look at a process's mappings: its file in /proc.
maps_read() { # ARGS...
	local trace=$BATS_TEST_TMPDIR/trace

	capture strace -f -qq -o "$trace" -e trace=openat "$FUNCSNOOP" "$@"
	grep -oE '/proc/[0-9]+/(task/[0-9]+/)?maps\b' "$trace"
}

@test "find: an attach reads the mappings of a process once for all groups" {
	local pid seen

	need_bpf
	need_no_sanitizer
	need_tool strace
	cp "$REAL" "$HERE/libonlyhere.so.1"
	cat >"$HERE/two.json" <<-'END'
	{ "one_func_sym": { "fix_add": "fix_add" }, "two_func_sym": { "fix_add": "fix_add" },
	  "lib": "onlyhere" }
	END
	start_with waits "$HERE/libonlyhere.so.1" 1
	pid=$(bg_pid waits)
	# what the kernel can do, and what probes take, is known after this
	fsn attach --config "$HERE/two.json"
	fsn detach --all
	seen=$(maps_read attach --config "$HERE/two.json" | sort)
	grep -qx "/proc/$pid/maps" <<<"$seen" || fail "process $pid was not looked at"
	assert_eq "$(uniq -d <<<"$seen")" "" "read more than once"
	fsn detach --all
	# a link for the process alone asks of its files whether the main thread may end
	seen=$(maps_read attach g fix_add --lib onlyhere --link perf --pid "$pid")
	assert_eq "$seen" "/proc/$pid/maps"
	fsn detach g
	run_on waits
}

@test "find: processes that map an empty group's files are read once for all groups" {
	local pid seen

	need_bpf
	need_no_sanitizer
	need_tool strace
	cp "$REAL" "$HERE/libonlyhere.so.1"
	cp "$REAL" "$HERE/libtwice.so.1"
	start_with waits "$HERE/libonlyhere.so.1" 1
	pid=$(bg_pid waits)
	fsn attach g fix_add --lib "$HERE/libonlyhere.so.1" --lib "$HERE/libtwice.so.1"
	seen=$(maps_read stats g | sort)
	grep -qx "/proc/$pid/maps" <<<"$seen" || fail "process $pid was not looked at"
	assert_eq "$(uniq -d <<<"$seen")" "" "read more than once"
	fsn stats g
	assert_output_match "^process $pid maps .*/libonlyhere.so.1 and has not called$"
	assert_output_line "no process maps $HERE/libtwice.so.1 now"
	fsn detach g
	run_on waits
}
