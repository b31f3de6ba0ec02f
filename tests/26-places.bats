# SPDX-License-Identifier: BSD-2-Clause
# Callers and locks in files that are mapped at one address, one after the other.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq cc
	cd "$BATS_TEST_TMPDIR" || return
	cat >target.c <<-'END'
		int place_target(int x) { return x + 1; }
	END
	# The same code and data, with names of their own.
	cat >part.c <<-'END'
		#define _GNU_SOURCE
		#include <linux/futex.h>
		#include <stdio.h>
		#include <sys/syscall.h>
		#include <time.h>
		#include <unistd.h>
		#define JOIN(a, b) a##b
		#define OWN(a, b) JOIN(a, b)
		int place_target(int x);
		int OWN(NAME, _lock) = 1;
		int OWN(NAME, _zeros)[3000];
		static void await(int *lock)
		{
			struct timespec time = { 0, 1000000 };
			syscall(SYS_futex, lock, FUTEX_WAIT, *lock, &time, 0, 0);
		}
		int OWN(NAME, _calls)(int cnt)
		{
			int sum = 0;
			for (int i = 0; i < cnt; i++) {
				sum += place_target(i);
				await(&OWN(NAME, _lock));
				await(&OWN(NAME, _zeros)[2000]);
			}
			return sum;
		}
		#ifdef PROGRAM
		int main(int argc, char **argv)
		{
			puts("ready " PROGRAM);
			fflush(stdout);
			getchar();
			if (OWN(NAME, _calls)(10) && argc > 1)
				execv(argv[1], argv + 1);
			puts("done");
			fflush(stdout);
			return getchar() > 0;
		}
		#endif
	END
	cat >load.c <<-'END'
		#include <dlfcn.h>
		#include <stdio.h>
		int main(int argc, char **argv)
		{
			char file[64], from[64];
			puts("ready ");
			fflush(stdout);
			for (int i = 1; getchar() > 0 && i < argc; i++) {
				snprintf(from, sizeof(from), "%s_calls", argv[i]);
				rename(argv[i], "./plugin.so");
				void *plugin = dlopen("./plugin.so", RTLD_NOW);
				int (*calls)(int) = plugin ? (int (*)(int))dlsym(plugin, from) : NULL;
				if (!calls)
					return 2;
				calls(10);
				printf("%s %p\n", argv[i], (void *)calls);
				fflush(stdout);
				dlclose(plugin);
			}
			return 0;
		}
	END
	cc -shared -fPIC -o libtarget.so target.c
	fsn attach c place_target --lib "$PWD/libtarget.so" --by caller
}

# Attaches to the waits for locks of NAME, which waits for a line.
waits_of() { # NAME
	wait_ready "$1"
	fsn attach l s:futex:wait --by lock --pid "$(bg_pid "$1")"
}

# [name, calls] of all callers, then of all locks, sorted
places() {
	fsn stats c --json
	json '[.[0].functions[].rows[] | [(.key.caller.name | sub("\\+.*"; "")), .calls]] | sort' -c
	fsn stats l --json
	json '[.[0].functions[].rows[] | [.key.lock.name, .calls]] | sort' -c
}

one='["one_calls",10]' one_locks='["one_lock",10],["one_zeros+0x1f40",10]'
two='["two_calls",10]' two_locks='["two_lock",10],["two_zeros+0x1f40",10]'

@test "places: a library loaded where another one was has callers and locks of its own" {
	local name look

	cc -o own-load load.c -L. -Wl,--no-as-needed -ltarget "-Wl,-rpath,$PWD"
	for look in early late; do
		for name in one two; do
			cc -DNAME=$name -shared -fPIC -o $name part.c -L. -ltarget "-Wl,-rpath,$PWD"
		done
		start_bg $look ./own-load one two
		waits_of $look
		tell $look
		wait_line -t 60 $look '^one'
		if [[ $look == early ]]; then
			assert_eq "$(places)" "[$one]"$'\n'"[$one_locks]"
		fi
		tell $look
		wait_line -t 60 $look '^two'
		assert_eq "$(sed -n 's/^one //p' "$(bg_out $look)")" "$(sed -n 's/^two //p' "$(bg_out $look)")"
		if [[ $look == early ]]; then
			assert_eq "$(places)" "[$one,$two]"$'\n'"[$one_locks,$two_locks]"
		else # the first file is gone
			assert_eq "$(places)" "[[\"plugin.so\",10],$two]"$'\n'"[[null,10],[null,10],$two_locks]"
		fi
		fsn detach l
		fsn stats c --reset
	done
	fsn detach c
}

@test "places: a program executed in the same process has callers and locks of its own" {
	local name

	for name in one two; do
		cc -no-pie "-DPROGRAM=\"$name\"" -DNAME=$name -o own-$name part.c -L. -ltarget \
			"-Wl,-rpath,$PWD"
	done
	assert_eq "$(nm own-one | sed -n 's/ . one_lock$//p')" "$(nm own-two | sed -n 's/ . two_lock$//p')"
	start_bg p ./own-one ./own-two
	waits_of p
	tell p
	wait_line -t 60 p '^ready two'
	tell p
	wait_line -t 60 p '^done'
	assert_eq "$(places)" "[$one,$two]"$'\n'"[$one_locks,$two_locks]"
	fsn detach c l
}

# As in a container: the layer that has the file, and so the path that the kernel shows, is not mounted here.
@test "places: callers in an ended program of an overlay have names, also in long directories" {
	local long folder at=$BATS_TEST_TMPDIR/at

	printf -v long '%070d' 1
	mkdir -p at layers lower
	mount -t tmpfs own layers
	mkdir layers/upper layers/work
	mount -t overlay overlay at -o "lowerdir=lower,upperdir=layers/upper,workdir=layers/work" 2>/dev/null || {
		umount layers
		skip "no overlayfs here"
	}
	umount -l layers
	cc '-DPROGRAM="one"' -DNAME=one -o own-one part.c -L. -ltarget "-Wl,-rpath,$PWD"
	for folder in "$at/in" "$at/in/$long" "$BATS_TEST_TMPDIR/$long"; do
		mkdir "$folder"
		cp own-one "$folder/"
		echo | "$folder/own-one"
		fsn stats c --json
		assert_json '.[0].functions[].rows | map([.calls, (.key.caller.name | split("+")[0])])' \
			'[[10,"one_calls"]]' "$folder"
		fsn stats c --reset
	done
	fsn detach c
	umount -l at
}
