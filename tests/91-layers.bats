#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# The source directories form layers: includes go one way, and the build enforces it.

# shellcheck disable=SC2154

load helpers

ROOT=$BATS_TEST_DIRNAME/..

# "DIRECTORY DIRECTORY": the first may include the second; the ordered list is in seen[].
allowed() {
	make -s -C "$ROOT" layers | awk -F: '{ n = split($2, low, " ")
		for (i = 1; i <= n; i++) print $1, low[i] }' | sort -u
}

folders() {
	make -s -C "$ROOT" layers | cut -d: -f1
}

# The makefile's name of a source file's directory: lib/elf/image.c is elf, cmd/main.c cmd.
room() {
	sed -E 's,^(lib|cmd)/([a-z]+)/[^/]*$,\2,; s,^(cmd|bpf)/[^/]*$,\1,; s,^bpf/(shared)/.*,\1,'
}

# Compiles a copy of the source with one line added to FILE.
compile_with() { # FILE LINE
	local copy=$BATS_TEST_TMPDIR/copy

	mkdir -p "$copy"
	cp -r "$ROOT"/{GNUmakefile,bpf,cmd,lib,tests} "$copy"
	sed -i "0,/^#include \"/s,,$2\n&," "$copy/$1"
	grep -qxF "$2" "$copy/$1" || fail "$1 has no place for an include"
	capture -s any make -C "$copy" O="$BATS_TEST_TMPDIR/o" \
		"$BATS_TEST_TMPDIR/o/${1%.c}.o"
	rm -rf "$copy" "$BATS_TEST_TMPDIR/o"
}

@test "layers: a directory sees only earlier ones, so there is no cycle" {
	local who low
	local -A before=([shared]=1)

	while IFS=: read -r who low; do
		for low in $low; do
			[[ -n ${before[$low]-} ]] || fail "$who sees $low, which comes later"
		done
		before[$who]=1
	done < <(make -s -C "$ROOT" layers)
	[[ ${#before[@]} -ge 15 ]] || fail "only ${#before[@]} folders"
}

@test "layers: every include names a visible directory or its own" {
	local uses

	uses=$( (cd "$ROOT" && grep -rHoE '^#include "[a-z]+/' lib cmd --include='*.[ch]') |
		sed -E 's,:#include "([a-z]+)/$, \1,' |
		while read -r file low; do echo "$(room <<<"$file") $low"; done |
		awk '$1 != $2' | sort -u)
	[[ $(wc -l <<<"$uses") -ge 60 ]] || fail "too few includes were read: $uses"
	assert_eq "$(comm -23 <(echo "$uses") <(allowed))" "" "includes that go up"
}

@test "layers: every undefined symbol of a directory is defined in a lower one" {
	local edges

	[[ -d $O/lib/base && -d $O/cmd/show ]] || skip "no objects in $O"
	edges=$(cd "$O" && for object in $(cd "$ROOT" && ls cmd/*.c {lib,cmd}/*/*.c | grep -v ^lib/gpu/); do
		nm -A "${object%.c}.o"
	done | awk '
		function room(object,  p) {
			n = split(object, p, "/")
			return n > 2 ? p[2] : p[1]
		}
		{ split($1, at, ":"); name = $NF; kind = $(NF - 1) }
		kind ~ /^[TDBRVWC]$/ { home[name] = room(at[1]) }
		kind == "U" { taken[room(at[1]) " " name] = 1 }
		END {
			for (t in taken) {
				split(t, part, " ")
				if (part[2] in home && home[part[2]] != part[1])
					print part[1], home[part[2]]
			}
		}' | sort -u)
	[[ $(wc -l <<<"$edges") -ge 50 ]] || fail "too few symbols were read: $edges"
	assert_eq "$(comm -23 <(echo "$edges") <(allowed))" "" "symbols from above"
}

@test "layers: only its own file and the table of kinds name a kind of target" {
	local names

	names=$(sed -nE 's/^extern const struct target_kind (target_[a-z]+);$/\1/p
		/^enum target_number/,/^}/s/^	(TARGET_[A-Z]+),.*/\1/p' "$ROOT/lib/target/kind.h")
	[[ $(wc -w <<<"$names") -ge 4 ]] || fail "kinds: $names"
	assert_eq "$(cd "$ROOT" && grep -rnwF "$names" cmd lib --include='*.[ch]' |
		grep -v '^lib/target/kind\.[ch]:' | grep -vFf <(grep -l '^const struct target_kind ' \
		lib/target/*.c | sed 's/$/:/'))" "" "kinds that are asked for by name"
}

@test "layers: an include of a higher directory does not compile, a lower one does" {
	need_tool make
	compile_with lib/base/err.c '#include "elf/elf_file.h"'
	[[ $status != 0 && $stderr == *"elf/elf_file.h: No such file"* ]] ||
		fail "base sees elf"
	compile_with lib/group/filter.c '#include "stats/stats.h"'
	[[ $status != 0 && $stderr == *"stats/stats.h: No such file"* ]] ||
		fail "group sees stats"
	compile_with lib/group/filter.c '#include "base/text.h"'
	assert_eq "$status" 0
}

@test "layers: internal.h is included only in its own directory" {
	need_tool make
	compile_with lib/find/library.c '#include "elf/internal.h"'
	[[ $status != 0 && $stderr == *"elf/internal.h: No such file"* ]] ||
		fail "find sees elf's inside"
}

@test "layers: only readers and writers of pinned maps see layout.h, all see words.h" {
	local file

	need_tool make
	for file in cmd/show/text.c lib/preset/read.c lib/code/flow.c; do
		compile_with "$file" '#include "shared/layout.h"'
		[[ $status != 0 && $stderr == *"shared/layout.h: No such file"* ]] ||
			fail "$file sees the layout"
		compile_with "$file" '#include "shared/words.h"'
		assert_eq "$status" 0
	done
}

@test "bpf: functions that call each other fit the smallest stack" {
	need_tool python3
	command -v llvm-objdump llvm-objdump-14 >/dev/null || skip "no llvm-objdump"
	capture "$ROOT/tests/stackdepth" "$O/bpf/funcsnoop.bpf.o"
}
