#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Functions without code of their own: the compiler has inlined them.

load helpers

setup() {
	common_setup
	need_tool cc
	PROG=$BATS_TEST_TMPDIR/own
	cat >"$PROG.c" <<-'END'
	#define OUT __attribute__((noinline))
	#define IN static inline __attribute__((always_inline))
	volatile long sink;
	IN void tiny(int n) { sink += n; }
	IN int gone(int n) { return n; }
	OUT void one(int n) { tiny(n); tiny(2); }
	OUT void two(int n) { if (n > 1) tiny(n); }
	OUT void three(int n) { for (int i = 0; i < n; i++) tiny(i); }
	OUT void four(int n) { tiny(n + gone(0)); }
	int main(int argc, char **argv)
	{
		for (int i = 0; i < 10; i++) {
			one(i);
			two(i);
			three(i);
			four(i);
		}
		tiny(argc);
		return 0;
	}
	END
}

# The functions with inlined copies of FUNCTION, as far as they are named.
into() { # FUNCTION [FILE]
	fsn -s any attach g "$1" --lib "${2:-$PROG}" --dry-run
	sed -n "s/^.*attach: '.*' was inlined into \(.*\): [0-9]* sites\? .*/\1/p" <<<"$stderr" |
		sed 's/, /\n/g; s/ and /\n/g' | sort
}

@test "inlined: attach names the functions that have the code of one without its own" {
	local how

	for how in "" -gdwarf-4 -gsplit-dwarf -gz -flto; do
		# shellcheck disable=SC2086	# none, or one
		(cd "$BATS_TEST_TMPDIR" && cc -O2 -g $how -o "$PROG" "$PROG.c") || fail "cc $how"
		assert_eq "$(into tiny | sed -E 's/^(one|two|three|four|main)$/one of them/' | uniq -c | xargs)" \
			"1 2 more 3 one of them" "$how"
	done
	cc -O2 -g -o "$PROG" "$PROG.c"
	assert_eq "$(into nothing)" ""
	fsn -s 1 attach g "$PROG:nothing" "$PROG:tiny" --dry-run
	assert_stderr_match "no function '$PROG:nothing' in $PROG$"
	fsn -s 1 attach g "$PROG:gone" --dry-run
	assert_stderr_match "no function '$PROG:gone' in $PROG: it was inlined, and no code of it is left$"
}

@test "inlined: a separate debug file says it of a stripped program" {
	need_tool objcopy
	cc -O2 -g -o "$PROG" "$PROG.c"
	objcopy --only-keep-debug "$PROG" "$PROG.debug"
	strip "$PROG"
	assert_eq "$(into tiny)" ""
	objcopy --add-gnu-debuglink="$PROG.debug" "$PROG"
	assert_eq "$(into tiny | grep -Ecx 'one|two|three|four|main')" 3
}

@test "inlined: names of C++ have scopes, arguments and templates, or not" {
	local name

	need_tool c++
	cat >"$PROG.cc" <<-'END'
	#define IN inline __attribute__((always_inline))
	volatile long sink;
	namespace geo {
	namespace detail { IN void tiny(int n) { sink += n; } }
	namespace {
	struct Box { long w; IN void fill(int n) { sink += n * w; } };
	IN void hidden(int n) { sink -= n; }
	}
	template <class T> IN void put(T n) { sink ^= n; }
	struct Door { __attribute__((noinline, used)) void open(int n) { sink += n; } };
	__attribute__((noinline)) void walk(int n)
	{
		detail::tiny(n);
		Box{sink}.fill(n);
		hidden(n);
		put(n);
		Door().open(n);
	}
	}
	struct Lid { IN void open(int n) { sink += n; } };
	int main(int argc, char **) { geo::walk(argc); Lid().open(argc); return 0; }
	END
	c++ -O2 -g -o "$PROG" "$PROG.cc"
	while read -r name; do
		assert_eq "$(into "$name")" geo::walk "$name"
	done <<-'END'
		geo::detail::tiny
		geo::detail::tiny(int)
		_ZN3geo6detail4tinyEi
		detail::tiny
		tiny
		geo::put
		geo::put<int>
		hidden
		geo::(anonymous namespace)::Box::fill
	END
	assert_eq "$(into 'geo::detail::tiny(long)')" ""
	assert_eq "$(into 'ail::tiny')" ""
	assert_eq "$(into Lid::open)" main
	# A function that is there is meant rather than one of that name which is not.
	fsn attach g open --lib "$PROG" --dry-run
	assert_output_match '^geo::Door::open\(int\)|^geo::Door::open '
}

# The truth is what the functions count themselves.
@test "inlined: calls are those that the program counts, with all links, in C and C++" {
	local link how

	need_bpf
	need_tool c++
	cat >"$PROG.c" <<-'END'
	#include <stdio.h>
	#define OUT __attribute__((noinline))
	#define IN static inline __attribute__((always_inline))
	volatile unsigned long leaves, pairs;
	IN int leaf(int n) { leaves++; return n * 3; }
	IN int pair(int n) { pairs++; return leaf(n) + leaf(n + 1); }
	OUT int one(int n) { return pair(n) + 1; }
	OUT int looped(int n)
	{
		int sum = 0;

		while (n-- > 0)
			sum += n & 1 ? leaf(n) : pair(n);
		return sum;
	}
	int main(void)
	{
		int sum = 0;

		for (int i = 0; i < 20; i++)
			sum += one(i) + looped(i);
		printf("%lu %lu\n", leaves, pairs);
		return sum == 7;
	}
	END
	cp "$PROG.c" "$PROG.cc"
	for link in session multi perf; do
		(need_link "$link" >/dev/null && echo y) | grep -q y || continue
		for how in "cc -O2 $PROG.c" "c++ -O3 $PROG.cc"; do
			# shellcheck disable=SC2086	# words
			$how -g -o "$PROG"
			fsn attach g "$PROG:leaf" "$PROG:pair" --probe link="$link"
			assert_stderr_match "'pair' was inlined into (one and looped|looped and one): 2 sites are counted, without times"
			"$PROG" >"$BATS_TEST_TMPDIR/truth"
			fsn stats g --json
			assert_eq "$(json '.[0].functions | sort_by(.name) | map(.calls) | "\(.[0]) \(.[1])"')" \
				"$(<"$BATS_TEST_TMPDIR/truth")" "$link, $how"
			assert_json '[.[0].functions[] | .total_ns, .p50_ns] | unique' '[null]'
			fsn detach g
		done
	done
	cat >"$PROG.c" <<-'END'
	volatile long sink;
	static inline __attribute__((always_inline)) void tiny(int n) { sink += n; }
	__attribute__((noinline)) void four(int *n) { for (int i = 0; i < 4; i++) tiny(n[i]); }
	int main(void) { int n[4] = {}; four(n); return 0; }
	END
	cc -O3 -g -o "$PROG" "$PROG.c" # the loop is unrolled
	fsn attach g "$PROG:tiny" --dry-run
	assert_stderr_match ": 1 site is counted, without times; the count of 1 may be too low$"
	assert_output_match "only counted, at its 1 place; may be too low$"
	fsn attach g "$PROG:tiny"
	"$PROG"
	fsn stats g
	assert_stderr_match "1 count may be too low: the compiler has split inlined code"
	fsn stats g --json
	assert_json '.[0] | .health.undercounted, .functions[0].calls < 4' $'1\ntrue'
	fsn detach g
	fsn -s 1 attach g "$PROG:lea*" --dry-run # a pattern
	assert_stderr_match "no function matches '$PROG:lea\*'"
}

# The function that others call by a pointer has code of its own.
@test "inlined: calls of code of the function's own are timed, and those of copies counted" {
	need_bpf
	cat >"$PROG.c" <<-'END'
	volatile long sink;
	extern void both(int n);
	inline __attribute__((always_inline)) void both(int n) { sink -= n; }
	void (*volatile far)(int) = both;
	__attribute__((noinline)) void here(int n) { both(n); }
	int main(void)
	{
		for (int i = 0; i < 10; i++) {
			far(i);
			here(i);
			here(i);
		}
		return 0;
	}
	END
	cc -O2 -g -o "$PROG" "$PROG.c"
	fsn attach g "$PROG:both"
	assert_stderr_match "^funcsnoop attach: 'both' was inlined into here: 1 site is counted, without times$"
	capture "$PROG"
	assert_numbers g "both 10 0 10 0 0 0
both (inlined) 20 0 - 0 0 20"
	fsn detach g
	fsn attach g "$PROG:here" --dry-run
	refute_stderr_match inlined
	fsn attach g "$PROG:bot*" --dry-run # a pattern
	refute_stderr_match inlined
	fsn attach g "$PROG:both" --by n --if 'n > 6' --slow 5ms --with split
	capture "$PROG"
	fsn stats g --by n --json
	assert_json '[.[0].functions[] | select(.name == "both") | .calls]' '[3]'
	fsn detach g
}

# The copy is in a frame, so that the return address is not at the stack pointer.
@test "inlined: stacks of copies, lines and instructions begin at the code that is hit" {
	local line

	need_bpf
	cat >"$PROG.c" <<-'END'
	volatile long sink;
	__attribute__((noinline)) long other(long n) { sink += n; return sink; }
	static inline __attribute__((always_inline)) void copy(long n) { sink += n; }
	__attribute__((noinline)) long work(long n)
	{
		volatile long frame[9] = { other(n) };

		copy(other(n + 1));
		sink += other(frame[0]); /* here */
		return frame[n % 9];
	}
	int main(void)
	{
		for (int i = 0; i < 30; i++)
			sink += work(i);
		return 0;
	}
	END
	cc -O2 -g -o "$PROG" "$PROG.c"
	line=$(grep -n here "$PROG.c" | cut -d : -f 1)
	fsn attach g "$PROG:copy" "$PROG:other" "$PROG.c:$line" --lib "$PROG" --by stack
	capture "$PROG"
	fsn stats g --by stack --format folded
	assert_eq "$(sed -E 's/^.*main;/main;/' <<<"$output" | sort)" "main;work;$PROG.c:$line 30
main;work;copy (inlined) 30
main;work;other 30
main;work;other 30
main;work;other 30"
	fsn detach g
	fsn -s 2 attach g "$PROG:copy" --by caller
	assert_stderr_match "'caller': only calls of functions of programs and libraries have a known caller"
	fsn attach g "$PROG:copy" "$PROG:other" --by caller
	assert_stderr_match 'calls of 1 of the 2 functions are not broken down'
	fsn detach g
}

@test "inlined: stacks of copies with lines begin at the copy's caller" {
	need_bpf
	need_tool c++
	cat >"$PROG.cc" <<-'END'
	#define IN __attribute__((always_inline))
	volatile long sink;
	namespace geo {
	template <class T> struct Box { IN static void fill(T n) { sink += n; } };
	IN static inline void copy(long n) { Box<long>::fill(n); }
	IN static inline void mid(long n) { copy(n); }
	}
	__attribute__((noinline)) long work(long n)
	{
		geo::mid(n);
		return sink;
	}
	int main() { for (int i = 0; i < 30; i++) sink += work(i); }
	END
	c++ -O2 -g -o "$PROG" "$PROG.cc"
	fsn attach g "$PROG":{geo::Box::fill,copy,geo::mid,own.cc:5} --by stack
	capture "$PROG"
	fsn stats g --lines --format folded
	assert_eq "$(sed -E 's/^.*main \(own.cc:13\);work \(own.cc:10\);//' <<<"$output" | sort)" \
		"geo::mid (inlined) 30
mid (own.cc:6)_[i];copy (inlined) 30
mid (own.cc:6)_[i];copy (own.cc:5)_[i];geo::Box::fill (inlined) 30
mid (own.cc:6)_[i];copy (own.cc:5)_[i];own.cc:5 30"
	fsn stats g --lines --json
	assert_json '[.[0].functions[] | select(.name == "geo::mid (inlined)").rows[0].key.stack.frames[0] |
		.name, .line, .inlined]' '["work",10,false]'
	echo "$output" >"$BATS_TEST_TMPDIR/before"
	fsn stats g --lines --by stack --diff "$BATS_TEST_TMPDIR/before"
	refute_output_match 'new|vanished'
	fsn detach g
}

# The search reads all entries before each name, and ends after 768 MiB.
@test "inlined: all copies are found, or none" {
	local i

	need_tool c++
	for ((i = 0; i < 3000; i++)); do
		echo "namespace n$i { namespace { inline __attribute__((always_inline)) int f(int x) { return x * $i; } } }"
		echo "__attribute__((noinline)) int in$i(int x) { return n$i::f(x) ^ n$i::f(x + 1) ^ n$i::f(x + 2); }"
	done >"$PROG.cc"
	{
		echo "int main(int argc, char **) { int s = 0;"
		for ((i = 0; i < 3000; i++)); do echo "s += in$i(argc);"; done
		echo "return s; }"
	} >>"$PROG.cc"
	c++ -O1 -g -o "$PROG" "$PROG.cc"
	assert_eq "$(into f | tail -n 1)" ""
}
