#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Lines of source files, which are counted; the truth is the program's own counters, and gdb.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_tool cc jq
	DIR=$BATS_TEST_TMPDIR/src
	PROG=$BATS_TEST_TMPDIR/own-lines
	mkdir -p "$DIR"
	cat >"$DIR/lines.c" <<-'END'
	#include <stdio.h>
	#define OUT __attribute__((noinline))
	#define IN static inline __attribute__((always_inline))
	volatile unsigned long leaves, odd, rounds;

	IN int leaf(int n)
	{
		leaves++; // in leaf
		return n * 3;
	}

	IN int pair(int n) { return leaf(n) + leaf(n + 1); }

	OUT int one(int n)
	{
		return pair(n) + 1; // in one
	}

	OUT int looped(int n)
	{
		int sum = 0;

		while (n-- > 0) {
			sum += leaf(n);
			if (n & 1)
				odd++; // in if
			rounds++; // in while
		}
		return sum;
	}

	int main(void)
	{
		int sum = 0;

		for (int i = 0; i < 20; i++)
			sum += one(i) + looped(i);
		printf("%lu %lu %lu\n", leaves, odd, rounds);
		return sum == 7;
	}
	END
}

build() { # [OPTION...]
	(cd "$DIR" && cc -O2 -g "$@" -o "$PROG" lines.c) || fail "cc $*"
}

line_of() { # TEXT
	grep -n -m 1 -F "$1" "$DIR/lines.c" | cut -d : -f 1
}

calls() { # of each row of group g, by name
	fsn stats g --json
	jq -r '.[0].functions | map("\(.name | sub("^.*:"; "")) \(.calls)") | sort[]' <<<"$output"
}

assert_truth() { # of the rows for the three counters
	local truth
	read -r -a truth < <("$PROG")
	assert_eq "$(calls)" "$(printf '%s\n' "$(line_of 'in leaf') ${truth[0]}" "$(line_of 'in if') ${truth[1]}" \
		"$(line_of 'in while') ${truth[2]}" | sort)" "$1"
}

@test "lines: hits are those that the program counts, with all links, in C and from debug files" {
	local link how id

	need_bpf
	for link in session multi perf; do
		(need_link "$link" >/dev/null && echo y) | grep -q y || continue
		build
		fsn attach g "$PROG:lines.c:$(line_of 'in leaf')" "$PROG:src/lines.c:$(line_of 'in if')" \
			"uprobe:$PROG:$DIR/lines.c:$(line_of 'in while')" --probe link="$link"
		assert_truth "$link"
		fsn detach g
	done
	for how in -gdwarf-4 -gsplit-dwarf -gz -flto; do
		build "$how"
		fsn attach g --lib "$PROG" lines.c:{"$(line_of 'in leaf')","$(line_of 'in if')","$(line_of 'in while')"}
		assert_truth "$how"
		fsn detach g
	done
	need_tool objcopy readelf
	[[ -d /usr/lib/debug ]] || skip "no folder /usr/lib/debug to put a mount on"
	build -Wl,--build-id
	id=$(readelf -n "$PROG" | sed -n 's/.*Build ID: //p')
	mount -t tmpfs tmpfs /usr/lib/debug
	mkdir -p "/usr/lib/debug/.build-id/${id:0:2}"
	objcopy --only-keep-debug "$PROG" "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
	strip "$PROG"
	fsn attach g --lib "$PROG" lines.c:{"$(line_of 'in leaf')","$(line_of 'in if')","$(line_of 'in while')"}
	umount /usr/lib/debug
	assert_truth "debug file"
	fsn detach g
}

@test "lines: a line has no times, and shares its instruction with others" {
	need_bpf
	build
	fsn attach g "$PROG:lines.c:$(line_of 'in one')" "$PROG:lines.c:$(line_of 'IN int pair')" "$PROG:one" \
		"$PROG:lines.c:$(line_of 'in one')"
	capture "$PROG"
	assert_numbers g "lines.c:$(line_of 'IN int pair') 20 0 - 0 0 20
lines.c:$(line_of 'in one') 20 0 - 0 0 20
one 20 0 20 0 0 0"
	fsn stats g --json
	assert_json '[.[0].functions[] | select(.name != "one") | .total_ns, .p50_ns] | unique' '[null]'
	fsn detach g
}

# gdb has one breakpoint for each function or inlined copy with the line, at the first piece of it.
@test "lines: the first instruction of a line is that of gdb's breakpoint" {
	local n functions=() breaks=() ours

	need_tool gdb
	build
	for n in $(seq "$(line_of 'IN int leaf')" "$(line_of 'return sum;')"); do
		functions+=("$PROG:lines.c:$n")
	done
	fsn attach g "${functions[@]}" --dry-run --json
	ours=$(json '.[0].functions | sort_by(.name)[] | "\(.name) \(.offset)"')
	assert_between "$(grep -c . <<<"$ours")" 10 25
	while read -r n _; do
		breaks+=(-ex "break $n")
	done <<<"$ours"
	assert_eq "$(gdb -q -batch -nx "${breaks[@]}" "$PROG" | sed -n 's/^Breakpoint .* at \(0x[0-9a-f]*\): .*/\1/p')" \
		"$(cut -d ' ' -f 2 <<<"$ours" | xargs printf '%#x\n')"
}

@test "lines: a line without code means the next one with code, and attach says so" {
	local n

	build
	n=$(line_of 'IN int leaf')
	fsn attach g "$PROG:lines.c:$((n - 1))" --dry-run
	assert_stderr "funcsnoop attach: line $((n - 1)) of lines.c has no code: 'lines.c:$n' is the next that has"
	assert_output_match "^lines.c:$n +$PROG "
	fsn -s 1 attach g "$PROG:lines.c:9999" --dry-run
	fsn -s 1 attach g "$PROG:lines.c:9999"
	assert_stderr "funcsnoop attach: no line '$PROG:lines.c:9999' in $PROG: no code at that line or after it"
	fsn -s 1 attach g "$PROG:ines.c:$n"
	assert_stderr_match "no line '$PROG:ines.c:$n' in $PROG: its debug information has no such source file"
	strip "$PROG"
	fsn -s 1 attach g "$PROG:lines.c:$n"
	assert_stderr_match "no line .* in $PROG: no debug information in the file, and no debug file of it"
	build
	fsn attach g "lines.c:$n" --dry-run --lib "$PROG" --lib "$FIX/libfix.so"
	fsn -s 1 attach g "lines.c:$n" --dry-run
	assert_stderr_match "^funcsnoop attach: no library is given for 'lines.c:$n'$"
	fsn run "lines.c:$(line_of 'in one')" -- "$PROG"
	assert_stderr_match "^lines.c:$(line_of 'in one') +20 "
}

@test "lines: an instruction that cannot be probed is refused" {
	need_arch x86_64
	cat >"$DIR/lines.c" <<-'END'
	volatile int n;
	int main(void)
	{
		__asm__ volatile("lock incl %0" : "+m"(n)); // locked
		return n;
	}
	END
	build
	fsn -s 1 attach g "$PROG:lines.c:$(line_of locked)"
	assert_stderr_match "^funcsnoop attach: cannot probe 'lines.c:[0-9]+' .*instruction can't be probed: "
}

@test "lines: 'list targets FILE:SOURCE:*' has the lines that objdump has, each with its function" {
	local how want all each n

	need_tool objdump
	for how in "cc -O2" "cc -O0" "clang -O2"; do
		command -v "${how% *}" >/dev/null || continue
		(cd "$DIR" && $how -g -o "$PROG" lines.c) || fail "$how"
		want=$(objdump --dwarf=decodedline "$PROG" | awk '$1 == "lines.c" && $2 ~ /^[1-9]/ && $NF == "x" { print $2 }' |
			sort -un)
		fsn list targets "$PROG:lines.c:*" --json
		assert_eq "$(json -r '.[].name | sub("lines.c:"; "")')" "$want" "$how"
		assert_eq "$(json -r ".[] | select(.name == \"lines.c:$(line_of 'in leaf')\").function")" leaf
		all=$output
		each=()
		for n in $want; do
			each+=("$PROG:lines.c:$n")
		done
		fsn list targets "${each[@]}" --json
		assert_eq "$all" "$output" "$how"
	done
	n=$(line_of 'in while')
	fsn list targets "$PROG:src/lines.c:${n:0:1}?"
	assert_output_match "^$PROG:src/lines.c:$n +in looped\$"
	fsn -s 1 list targets "$PROG:lines.c:9*"
	assert_stderr "funcsnoop list: no line '$PROG:lines.c:9*' in $PROG: no line that matches has code"
	fsn -s 1 list targets "$PROG:nosuch.c:*"
	assert_stderr_match "no line '$PROG:nosuch.c:\*' in $PROG: its debug information has no such source file"
}

@test "lines: a glob of line numbers counts each line as a request for it does" {
	local n

	need_bpf
	build
	n=$(line_of 'in if')
	fsn attach g "$PROG:lines.c:${n:0:1}*"
	fsn attach h "$PROG:lines.c:$n"
	capture "$PROG"
	fsn stats h --json
	jq -c '.[0].functions[] | [.name, .calls]' <<<"$output" >"$BATS_TEST_TMPDIR/one"
	fsn stats g --json
	assert_eq "$(jq -c ".[0].functions[] | [.name, .calls] | select(.[0] == \"lines.c:$n\")" <<<"$output")" \
		"$(<"$BATS_TEST_TMPDIR/one")"
	fsn detach g h
}
