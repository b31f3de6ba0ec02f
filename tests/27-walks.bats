# SPDX-License-Identifier: BSD-2-Clause
# How far stacks are followed: programs built in many ways, and real ones; what ends them.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
	need_fixture stacks
}

# Stacks of a document's calls: without the callers of st_leaf() and main.leaf, which the
# programs' own backtraces lack.
frames_of() { # END PROGRAM FUNCTION: regular expressions, but PROGRAM
	jq -r --arg how "^$1$" --arg lib "$2" --arg name "^$3$" '
		.[0].functions[] | select(.name | test($name))
		| select(.library | endswith("/" + $lib))
		| (.name | endswith("leaf")) as $called | .rows[] | .key.stack
		| select(.end | test($how)) | [.frames[(if $called then 1 else 0 end):][]
			| ((.file // "?") | split("/") | last) + "+" + .offset] | join(" ")' | sort -u
}

# The cases of each build of the fixture, and of two more languages.
declare -gA BUILDS
for build in '' -static -static-pie -stripped -fp -O0; do
	BUILDS[stacks$build]="plain recurse sort signal thread aligned alloca vla altstack coroutine catch unwind moved"
done
BUILDS[stacks-musl]="plain recurse alloca vla aligned thread moved"
BUILDS[stacks-rust]="plain recurse sort rust-sort rust-unwind rust-dyn rust-thread"
BUILDS[stacks-go]="plain recurse sort thread"

# gdb's stacks of the probed functions in a build.
debugged() { # PROGRAM
	local functions='st_leaf st_moved_endbr st_moved_lea st_moved_sub st_moved_none'

	case $1 in
	stacks-go) functions=main.leaf ;;
	stacks-rust) functions=st_leaf ;;
	esac
	# shellcheck disable=SC2086	# words
	FUNCTIONS=$functions timeout 30 gdb -nx -batch -x "$BATS_TEST_DIRNAME/fixtures/stacks-gdb.py" --args \
		"$FIX/$1" ${BUILDS[$1]} 2>/dev/null </dev/null 3>&- | grep -F "$1+" | sort -u
}

@test "stacks: match the program's own and gdb's, for each kind of build" {
	need_arch x86_64
	local build libs=() here=() go=() doc=$BATS_TEST_TMPDIR/doc
	[[ ! -e $FIX/stacks-go ]] || go=(main.leaf)
	for build in "${!BUILDS[@]}"; do
		[[ ! -e $FIX/$build ]] || here+=("$build") libs+=(--lib "$FIX/$build")
	done
	# It and probes can't have one place.
	! command -v gdb >/dev/null || for build in "${here[@]}"; do
		[[ $build =~ ^stacks(-static-pie|-musl|-rust|-go)?$ ]] || continue
		debugged "$build" >"$BATS_TEST_TMPDIR/$build"
	done
	fsn attach st st_leaf 'st_moved_*' "${go[@]}" "${libs[@]}" --stacks all --count
	for build in "${here[@]}"; do
		# shellcheck disable=SC2086	# words
		capture "$FIX/$build" ${BUILDS[$build]}
	done
	fsn stats st --json --output "$doc"
	for build in "${here[@]}"; do
		# glibc's backtrace() and Go's runtime.Callers() end where all do.
		# shellcheck disable=SC2086	# words
		[[ $build == *-musl ]] || assert_eq "$(frames_of outermost "$build" '(st_|main[.])leaf' <"$doc")" \
			"$("$FIX/$build" ${BUILDS[$build]} --truth | sed "s/self+/$build+/g" | sort -u)" "$build"
		# Musl's own code, where main threads begin, is described by nothing.
		[[ ! -e $BATS_TEST_TMPDIR/$build ]] || assert_eq "$(<"$BATS_TEST_TMPDIR/$build")" \
			"$(frames_of '(outermost|no_rule)' "$build" '.*' <"$doc")" "$build in gdb"
	done
	output=$(<"$doc")
	assert_json '[.[0].functions[] | select(.name | startswith("st_moved_")) | .rows[].key.stack.frames
		| map(.name)[:3]] | unique' '[["st_prologue","st_moved","st_case"]]'
	fsn list functions st --json
	assert_json '[.[0].functions[] | select(.name == "st_moved_endbr") | .site_offset - .offset] | unique' '[4]'
	fsn detach st
}

@test "stacks: a mapped file that cannot have an unwind table is reported with a reason" {
	need_tool python3
	echo 'no code' >"$BATS_TEST_TMPDIR/text"
	start_bg mapper python3 -c 'import mmap, sys
with open(sys.argv[1], "rb") as f:
    at = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
input()' "$BATS_TEST_TMPDIR/text"
	wait_line mapper '^ready'
	fsn attach st fix_add --lib "$FIX/libfix.so.1" --stacks all --pid "$(bg_pid mapper)"
	assert_stderr_match "stacks end at 1 of the mapped files: '.*/text' is not an ELF file; "
	fsn detach st
	fsn attach st fix_add --lib "$FIX/libfix.so.1" --stacks all
	refute_stderr_match 'stacks end'
	fsn detach st
	tell mapper
	wait_bg mapper
}

# By program of a document: number of walks with this end, of how many, and how many were
# truncated at a new file. Walks over the frame limit, as in Python's imports, do not count.
ends_by_program() { # FILE
	jq -r '.[0].functions[].rows[] | select(.key.stack.end) | [.key.comm.value, .key.stack.end, .calls]
		| @tsv' "$1" | awk -F '\t' '
		$2 == "no_table" { met[$1] += $3; next }
		$2 == "too_deep" { next }
		{ all[$1] += $3; whole[$1] += $2 == "outermost" ? $3 : 0 }
		END { for (p in all) print p, whole[p], all[p], met[p] + 0 }'
}

@test "stacks: walks of real programs end at their first frame, or with a reason" {
	need_arch x86_64
	local own=$BATS_TEST_TMPDIR/own doc=$BATS_TEST_TMPDIR/doc seen='' program whole all met
	need_tool git g++ perl python3
	copy_libc "$FIX/stacks" "$own"
	cat >"$BATS_TEST_TMPDIR/load" <<-'END'
		git diff --no-index --stat "$1" "$2" >/dev/null
		echo '#include <map>' | g++ -x c++ -fsyntax-only -
		perl -e '$h{$_ x 3} = [1 .. 5] for 1 .. 3000'
		for i in {1..20}; do x=$(echo $i); done
		python3 -c 'import json; [json.loads(json.dumps([0] * (i % 50))) for i in range(2000)]'
		! command -v node >/dev/null ||
			node -e 'for (let i = 0; i < 3000; i++) JSON.parse(JSON.stringify({ a: [i] }))'
		exit 0
	END
	fsn run "$own/libc.so.6:malloc" --stacks 10 --key comm --keys 60000 --count --format json -o "$doc" -- \
		env LD_LIBRARY_PATH="$own" bash "$BATS_TEST_TMPDIR/load" "$FIX/libfix.so" "$FIX/stacks"
	while read -r program whole all met; do
		seen+=" $program"
		((whole * 1000 >= all * 995)) || differs "$program" "99.5 % of $all" "$whole"
		# Node's threads can't be held until there is a table.
		[[ $program == node ]] || assert_between "$met" 0 40 "files that $program was the first to meet"
	done < <(ends_by_program "$doc")
	for program in git cc1plus perl bash python3; do
		[[ $seen == *" $program"* ]] || differs "programs" "$program among them" "$seen"
	done
}

is_cut() {
	"$FUNCSNOOP" stats st --format folded | grep -q '^\[truncated: file without an unwind table\]'
}

# Each process has files of its own, which the group has met at the second look.
@test "stacks: processes with another root or mounts have unwind tables of their own files" {
	need_arch x86_64
	export FUNCSNOOP_UNWIND=tables
	local root=$BATS_TEST_TMPDIR/root enter libc file
	mkdir -p "$root/lib64" "$root/lib"
	cp "$FIX/stacks" /lib64/ld-linux-x86-64.so.2 "$root/lib64"
	for file in $(ldd "$FIX/stacks" | awk '$2 == "=>" { print $3 }'); do
		cp "$file" "$root/lib"
		[[ $file != */libc.so.6 ]] || libc=$(realpath "$file")
	done
	cp "$libc" "$BATS_TEST_TMPDIR/libc"
	for enter in "chroot $root /lib64/stacks" "unshare -m $BATS_TEST_TMPDIR/enter"; do
		cat >"$BATS_TEST_TMPDIR/enter" <<-END
			#!/bin/sh
			mount --bind "$BATS_TEST_TMPDIR/libc" "$libc" && exec "$FIX/stacks" "\$@"
		END
		chmod +x "$BATS_TEST_TMPDIR/enter"
		file=$FIX/stacks
		[[ $enter != chroot* ]] || file=$root/lib64/stacks
		fsn attach st st_leaf --lib "$file" --stacks all --count
		# shellcheck disable=SC2086	# words
		start_bg hung $enter hang
		poll_until is_cut
		fsn stats st
		fsn reset st
		# shellcheck disable=SC2086	# words
		capture $enter plain
		fsn stats st --format folded
		assert_output_match '^_start;.*;main;st_case;st_plain;st_call;st_leaf 1$'
		assert_eq "$(grep -c . <<<"$output")" 1
		stop_bg hung
		fsn detach st
	done
}

# The kernel executes the instruction, and the end of a return probe, in a page of its own.
@test "stacks: samples of a program with probes are complete" {
	need_arch x86_64
	need_tool cc
	local own=$BATS_TEST_TMPDIR/own how
	cc -O2 -fomit-frame-pointer -o "$own" -x c - <<-'END'
		#include <stdio.h>
		__attribute__((noinline)) int hot(int a) { __asm__ volatile(""); return a + 1; }
		__attribute__((noinline)) int outer(int a) { for (int i = 0; i < 1000; i++) a += hot(i); return a; }
		int main(void)
		{
			volatile int sum = 0;
			puts("ready");
			fflush(stdout);
			for (;;)
				sum += outer(sum);
		}
	END
	for how in ret return; do
		fsn attach hot hot --lib "$own" --probe exit="$how" --overhead none
		start_bg own "$own"
		wait_line own ready
		fsn run cpu -p "$(bg_pid own)" --rate 999 -d 2 --json
		assert_json '.[0].health.stacks | .outermost > 20 and .outermost > 0.9 * ([.[]] | add)' true
		stop_bg own
		fsn detach hot
	done
}

# After execve(2) has replaced the memory, and before it has set the registers.
@test "stacks: a process that executes another program has kernel frames alone" {
	fsn run t:task:task_rename --by stack --json --output "$BATS_TEST_TMPDIR/doc" -- sh -c 'exec true'
	output=$(<"$BATS_TEST_TMPDIR/doc")
	assert_json '[.[0].functions[].rows[].key.stack | [.end, any(.frames[]; .name == "begin_new_exec_[k]")]] | unique' \
		'[["outermost",true]]'
}
