# SPDX-License-Identifier: BSD-2-Clause
# How functions are found in files: tables, versions, aliases, what is only imported, files
# that are odd or hostile.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so
REAL=$FIX/libfix.so.1

dry() { # [-s STATUS] ARG...: attach --dry-run of group g
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	fsn "${opts[@]}" attach g "$@" --dry-run
}

# Bytes of a file are changed in place, so the words must have the same length.
patch_file() { # FILE OLD NEW
	python3 - "$@" <<-'END'
	import os, sys
	path, old, new = (os.fsencode(arg) for arg in sys.argv[1:])
	data = open(path, 'rb').read()
	assert old in data and len(old) == len(new)
	open(path, 'wb').write(data.replace(old, new))
	END
}

drop_sections() { # FROM TO: a copy without section headers
	python3 - "$@" <<-'END'
	import struct, sys
	data = bytearray(open(sys.argv[1], 'rb').read())
	struct.pack_into('<Q', data, 40, 0)
	struct.pack_into('<HH', data, 60, 0, 0)
	open(sys.argv[2], 'wb').write(data)
	END
	chmod +x "$2"
}

assert_clean() { # no byte that steers a terminal, and valid UTF-8
	iconv -f UTF-8 -t UTF-8 "$1" >/dev/null || fail "$1 is not UTF-8"
	! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' "$1" || fail "$1 has control characters"
}

# --- names ------------------------------------------------------------------------------------

@test "symbols: a missing version is answered with the available ones" {
	dry -s 1 fix_ver@FIX_9 --lib "$LIB"
	assert_stderr "funcsnoop attach: no function 'fix_ver@FIX_9' in $REAL
hint: did you mean 'fix_ver@FIX_2' or 'fix_ver@FIX_1'"
}

@test "symbols: an IFUNC is refused, and a hint names its implementations or debug symbols" {
	dry -s 1 fix_ifunc --lib "$LIB"
	assert_stderr "funcsnoop attach: function 'fix_ifunc' in $REAL can't be probed: an IFUNC: which implementation runs is decided by each process
hint: its implementations have no names here: install the debug symbols of the library"
	dry -s 1 c:memcpy
	assert_stderr_match "^funcsnoop attach: function 'c:memcpy' in .* an IFUNC: "
	assert_stderr_match "^hint: (probe its implementations:|its implementations have no names)"
}

@test "symbols: similar names are suggested, imported ones included" {
	dry -s 1 fix_ad --lib "$LIB"
	assert_stderr_match "^hint: did you mean 'fix_add'"
	dry -s 1 FIX_RECURS --lib "$LIB"
	assert_stderr_match "^hint: did you mean 'fix_recurse'"
	dry -s 1 fix_recrse --lib "$FIX/call"
	assert_stderr "funcsnoop attach: no function 'fix_recrse' in $FIX/call
hint: did you mean 'fix_recurse'"
	dry -s 1 qqqqqqqqqq --lib "$LIB"
	assert_stderr "funcsnoop attach: no function 'qqqqqqqqqq' in $REAL"
}

@test "symbols: an imported function is answered with the library that defines it" {
	dry -s 1 fix_add --lib "$FIX/call"
	assert_stderr "funcsnoop attach: 'fix_add' is only imported by $FIX/call: $REAL defines it
hint: name that library with --lib, or as $REAL:fix_add"
	dry -s 1 fix_add@plt --lib "$FIX/call"
	assert_stderr_match "'fix_add' is only imported by $FIX/call: $REAL defines it$"
	dry -s 1 'fix_r*' --lib "$FIX/call"
	assert_stderr "funcsnoop attach: no function matches 'fix_r*' in $FIX/call
hint: 2 names, such as 'fix_recurse', are only imported: --lib $REAL"
	need_fixture cartcall
	dry -s 1 shop::Cart::total --lib "$FIX/cartcall"
	assert_stderr_match "'shop::Cart::total' is only imported by .*: $FIX/libcart.so defines it$"
}

@test "symbols: a function whose symbol has no size is probed" {
	need_bpf
	need_arch x86_64
	fsn attach g asm_size0 --lib "$FIX/libinsn.so" --json
	assert_json '.[0].functions | map([.name, .refused])' '[["asm_size0",null]]'
	capture "$FIX/asmcall" asm_size0 20
	assert_numbers g "asm_size0 20 0 20 0 0 0"
	fsn detach g
}

@test "symbols: a glob skips cold parts and PLT stubs" {
	need_fixture hazcxx
	dry '*' --lib "$FIX/call" --json
	assert_json '.[0].functions | map(select(.name | test("@plt|[.]cold"))) | length' 0
}

@test "symbols: a pattern leaves out what the start files add to every program" {
	local pattern

	for pattern in '*' 'r*'; do
		fsn list targets "$FIX/rates:$pattern" --json
		refute_output_match '"(_start|_init|_fini|frame_dummy|register_tm_clones|__do_global_dtors_aux)"'
	done
	fsn list targets "$FIX/rates:_init"
	assert_output_match '^[^ ]*:_init '
}

@test "symbols: all forms of the notation of bcc and bpftrace select the function" {
	local text lib=$BATS_TEST_TMPDIR/libonlyhalf.so

	cp "$REAL" "$lib"
	export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR
	for text in "onlyhalf:fix_add" "p:onlyhalf:fix_add" "$lib:fix_add" "p:$lib:fix_add" \
		"libonlyhalf.so:fix_add" "onlyhalf:fix_a[d]d" {r,uprobe,uretprobe}:"onlyhalf:fix_add" \
		"uprobe:$lib:fix_add"; do
		dry "$text" --json
		assert_json '.[0].functions | map([.name, .library])' "[[\"fix_add\",\"$lib\"]]"
	done
	dry -r 'onlyhalf:^fix_add$' --json
	assert_json '.[0].functions | map(.name)' '["fix_add"]'
	for text in "x:onlyhalf:fix_add" "nosuch:fix_add" "onlyhalf:"; do
		dry -s 1 "$text"
		assert_stderr_match "^funcsnoop attach: "
	done
}

# --- files without sections ---------------------------------------------------------------------

@test "symbols: a library without section headers has its exported functions" {
	local lib=$BATS_TEST_TMPDIR/libfix.so.1 want

	dry 'fix_*' --lib "$FIX/stripped/libfix.so.1" --json
	want=$(json '.[0].functions | map([.name, .offset, .site_offset, .refused])')
	drop_sections "$FIX/stripped/libfix.so.1" "$lib"
	dry 'fix_*' --lib "$lib" --json
	assert_json '.[0].functions | map([.name, .offset, .site_offset, .refused])' "$want"
	need_bpf
	fsn attach g fix_add fix_ver@FIX_1 --lib "$lib"
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR capture "$FIX/call" add 10
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR capture "$FIX/call" ver_old 3
	assert_numbers g "fix_add 10 0 10 0 0 0
fix_ver@FIX_1 3 0 3 0 0 0"
	fsn detach g
}

# It imports longjmp's kin: that must be seen without sections, too.
@test "symbols: a program without section headers is judged like one with them" {
	local prog=$BATS_TEST_TMPDIR/prog

	need_tool cc
	cat >"$prog.c" <<-'END'
	#include <stdio.h>
	#include <ucontext.h>
	__attribute__((noinline, visibility("default"))) int exported(int a) { return puts("") + a; }
	int main(int argc, char **argv)
	{
		ucontext_t u;

		return exported(argc) > 5 ? swapcontext(&u, &u) : 0;
	}
	END
	capture cc -O1 -rdynamic -o "$prog" "$prog.c"
	drop_sections "$prog" "$prog.bare"
	dry exported --lib "$prog.bare" --json
	assert_json '[.[0].functions[] | [.name, (.exit_why | test("needs only the C library"))]]' \
		'[["exported",false]]'
	sed -i '/swapcontext/s/swapcontext(&u, &u)/getcontext(\&u)/' "$prog.c"
	capture cc -O1 -rdynamic -o "$prog" "$prog.c"
	drop_sections "$prog" "$prog.bare"
	dry exported --lib "$prog.bare" --json
	assert_json '[.[0].functions[] | [.name, (.exit_why | test("needs only the C library"))]]' \
		'[["exported",true]]'
}

# Alignment leaves zeros between its sections; the bytes after them are code as well.
@test "symbols: a stripped plain C program has return probes, wherever its code ends" {
	local prog=$BATS_TEST_TMPDIR/prog n

	need_tool cc
	cat >"$prog.c" <<-'END'
	__attribute__((noinline, visibility("default"))) int exported(int a) { return a + 1; }
	__attribute__((section(".text.zz"), used)) static void last(void) { __asm__(PAD); }
	int main(int argc, char **argv) { return exported(argc); }
	END
	for n in '' nop nop\;nop nop\;nop\;nop; do
		capture cc -O1 -s -rdynamic -DPAD="\"$n\"" -o "$prog" "$prog.c"
		dry exported --lib "$prog" --json
		assert_json '.[0].functions | map([.name, .exit])' '[["exported","return"]]'
	done
}

# Calls of FUNCTION, which the stripped copy of FILE has only at its address, are counted and timed.
by_address() { # FUNCTION CALLS FILE COMMAND...
	local at bare=$BATS_TEST_TMPDIR/bare/${3##*/}

	strip -o "$bare" "$3"
	at=$(nm "$3" | sed -n "s/^0*\([0-9a-f]*\) . $1\$/\1/p")
	fsn attach g "$bare:0x$at" "$bare:sub_$at" --json
	assert_json '.[0].functions | map([.name, .symbol])' "[[\"sub_$at\",null]]"
	LD_LIBRARY_PATH=${bare%/*} capture "${@:4}"
	assert_numbers g "sub_$at $2 0 $2 0 0 0"
	fsn detach g
	dry "$3:0x$at" --json
	assert_json '.[0].functions | map(.name)' "[\"$1\"]"
	dry -s 1 "$bare:0x$(printf %x $((0x$at + 1)))"
	assert_stderr_match "no function '$bare:0x[0-9a-f]+' in $bare: none starts at that address$"
	assert_stderr_match "^hint: use '$bare:sub_$at', the function around it, or '$bare:sub_$at\+0x1' "
}

# A return probe there would change the program's data.
@test "symbols: a cold part of a stripped file is not taken for a function" {
	local at bare=$BATS_TEST_TMPDIR/crash

	at=$(nm "$FIX/crash" | sed -n 's/^0*\([0-9a-f]*\) t inner\.cold$/\1/p')
	[[ $at ]] || skip "the compiler makes no cold part"
	strip -o "$bare" "$FIX/crash"
	for at in "0x$at" "sub_$at" "+0x$at"; do # its addresses are offsets in the file
		dry -s 1 "$bare:$at"
		assert_stderr_match "can't be probed: a cold part of a function or a PLT, not a function$"
	done
	at=$(printf %x $((0x${at#+0x} + 1)))
	dry -s 1 "$bare:0x$at"
	assert_stderr "funcsnoop attach: no function '$bare:0x$at' in $bare: none starts at that address"
}

@test "symbols: a pattern finds the functions of a stripped file by their frames" {
	local bare=$BATS_TEST_TMPDIR/bare

	need_bpf
	dry "$FIX/crash:*" --json
	json -r '.[0].functions[].offset' | sort >"$BATS_TEST_TMPDIR/named"
	strip -o "$bare" "$FIX/crash"
	dry "$bare:*" --json
	assert_stderr_match "^funcsnoop attach: $bare is stripped: its functions are named by their addresses, such as 'sub_[0-9a-f]+'$"
	assert_eq "$(json -r '.[0].functions[].offset' | sort)" "$(<"$BATS_TEST_TMPDIR/named")"
	assert_json '[.[0].functions[] | .name == "sub_" + .name[4:] and .symbol == null] | unique' '[true]'
	dry "$bare:sub_*" --json
	assert_eq "$(json -r '.[0].functions[].offset' | sort)" "$(<"$BATS_TEST_TMPDIR/named")"
	dry -s 1 "$bare:in*"
	assert_stderr_match "^hint: $bare is stripped: its -dbgsym"
	strip -o "$bare" "$FIX/naps"
	fsn run "$bare:*" --overhead none --json -o "$BATS_TEST_TMPDIR/json" -- "$bare" 20
	output=$(<"$BATS_TEST_TMPDIR/json")
	# main, nap_long, and nap_hot
	assert_json '[.[0].functions[].calls | select(. > 0)] | sort' '[1,20,20000]'
}

@test "symbols: no hint offers the PLT as the function around an address" {
	local at bare=$BATS_TEST_TMPDIR/bare

	need_arch x86_64
	strip -o "$bare" "$FIX/call"
	at=$(readelf -SW "$bare" | sed -En 's/.* \.plt  *PROGBITS  *0*([0-9a-f]+) .*/\1/p')
	at=$(printf %x $((0x$at + 16)))
	dry -s 1 "$bare:0x$at"
	assert_stderr "funcsnoop attach: no function '$bare:0x$at' in $bare: none starts at that address"
}

@test "symbols: a function of a stripped file is probed at the address that nm prints" {
	local bare=$BATS_TEST_TMPDIR/bare

	need_bpf
	mkdir "$bare"
	by_address fix_add 10 "$FIX/call-static" "$bare/call-static" add 10
	by_address fix_local 10 "$REAL" "$FIX/call" local_call 10 # a library
	by_address c_switch 90 "$FIX/asmcall-nopie" "$bare/asmcall-nopie" c_switch 90
	dry -s 1 fix_add 0x1 --lib "$REAL" # the others are shown
	assert_output_match '^fix_add '
	assert_stderr_match "no function '0x1' in $REAL: its code has no such address$"
	dry -s 1 "$REAL:sub_add" # a name: no code has this address
	assert_stderr_match "^funcsnoop attach: no function '$REAL:sub_add' in $REAL$"
}

# --- separate symbols -----------------------------------------------------------------------------

@test "symbols: a debug file found by build id names the functions of a stripped file" {
	local lib=$BATS_TEST_TMPDIR/libfix.so.1 id dir

	need_root
	[[ -d /usr/lib/debug ]] || skip "no folder /usr/lib/debug to put a mount on"
	id=$(readelf -n "$REAL" | sed -n 's/.*Build ID: //p')
	cp "$FIX/stripped/libfix.so.1" "$lib"
	dry -s 1 fix_local --lib "$lib"
	mount -t tmpfs tmpfs /usr/lib/debug
	dir=/usr/lib/debug/.build-id/${id:0:2}
	mkdir -p "$dir"
	objcopy --only-keep-debug "$REAL" "$dir/${id:2}.debug"
	fsn -s any attach g fix_local --lib "$lib" --dry-run --json
	umount /usr/lib/debug
	assert_eq "$status" 0
	assert_json '.[0].functions | map(.name)' '["fix_local"]'
}

@test "symbols: a file from debuginfod-find names the functions of a stripped file" {
	local lib=$BATS_TEST_TMPDIR/libfix.so.1 id dir

	need_tool objcopy
	id=$(readelf -n "$REAL" | sed -n 's/.*Build ID: //p')
	cp "$FIX/stripped/libfix.so.1" "$lib"
	dir=$BATS_TEST_TMPDIR/cache/debuginfod_client/$id
	mkdir -p "$dir"
	objcopy --only-keep-debug "$REAL" "$dir/debuginfo"
	XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache dry fix_local --lib "$lib" --json
	assert_json '.[0].functions | map(.name)' '["fix_local"]'
	DEBUGINFOD_CACHE_PATH=${dir%/*} dry fix_local --lib "$lib" --json
	assert_json '.[0].functions | map(.name)' '["fix_local"]'
	dry -s 1 fix_local --lib "$lib"
}

@test "symbols: a stripped file is reported with the source of its names" {
	local lib=$FIX/stripped/libfix.so.1 id

	id=$(readelf -n "$REAL" | sed -n 's/.*Build ID: //p')
	dry -s 1 fix_local zz_gone --lib "$lib"
	assert_stderr_match "^funcsnoop attach: no functions 'fix_local', 'zz_gone' in $lib$"
	assert_stderr_match "^hint: $lib is stripped: its -dbgsym or -dbg package has the names, or 'debuginfod-find debuginfo $id' fetches them; 0xADDR needs none$"
	dry -s 1 'zz_*' --lib "$lib"
	assert_stderr_match "^hint: $lib is stripped"
	# A probable typing error gets a suggestion.
	dry -s 1 fix_ad --lib "$lib"
	assert_stderr_match "^hint: did you mean 'fix_add'"
	dry -s 1 fix_gone fix_lost zz_gone --lib "$REAL"
	assert_stderr_match "^funcsnoop attach: no functions 'fix_gone', 'fix_lost', 'zz_gone' in $REAL$"
	refute_stderr_match stripped
	dry -s 1 "$REAL:fix_gone" c:zz_gone fix_add --lib "$REAL"
	assert_stderr_match "^funcsnoop attach: no functions '$REAL:fix_gone', 'c:zz_gone'$"
	dry -s 1 "$(printf 'zz_%060d' 1)" "$(printf 'zz_%060d' 2)" $(seq -f 'zz_%060.f' 3 20) --lib "$lib"
	assert_stderr_match "'zz_0+1', .* and 1[0-9] more in $lib$"
}

@test "symbols: a link that PATH leads to is shown as typed" {
	cp "$FIX/call" "$BATS_TEST_TMPDIR/own-check"
	ln -s own-check "$BATS_TEST_TMPDIR/own-server"
	PATH=$BATS_TEST_TMPDIR:$PATH dry own-server:main --json
	assert_json '.[0].libraries | map([.path, .typed] | map(split("/") | last))' \
		'[["own-check","own-server"]]'
}

@test "symbols: a symbolic link is shown as typed, with its target" {
	ln -s "$REAL" "$BATS_TEST_TMPDIR/mine.so"
	dry fix_add --lib "$BATS_TEST_TMPDIR/mine.so"
	assert_output_match "^$BATS_TEST_TMPDIR/mine.so \($REAL\) +1 +path"
	dry fix_add --lib "$BATS_TEST_TMPDIR/mine.so" --json
	assert_json '.[0].libraries | map([.path, .typed])' \
		"[[\"$REAL\",\"$BATS_TEST_TMPDIR/mine.so\"]]"
	dry fix_add --lib "$REAL" --json
	assert_json '.[0].libraries | map(.typed)' '[null]'
	need_bpf
	fsn attach g fix_add --lib "$BATS_TEST_TMPDIR/mine.so"
	assert_output_match "^g: 1 function of $BATS_TEST_TMPDIR/mine.so \($REAL\), mapped by 0 processes$"
	fsn detach g
}

@test "symbols: a debug file with a wrong checksum is ignored" {
	local dir=$BATS_TEST_TMPDIR

	need_tool objcopy
	cp "$FIX/debuglink/libfix.so.1" "$dir/"
	cp "$FIX/debuglink/libfix.so.1.debug" "$dir/"
	dry fix_local --lib "$dir/libfix.so.1" --json
	assert_json '.[0].functions | map(.name)' '["fix_local"]'
	printf 'x' >>"$dir/libfix.so.1.debug" # the link's checksum is another now
	dry -s 1 fix_local --lib "$dir/libfix.so.1"
}

# --- hostile files ---------------------------------------------------------------------------------

@test "symbols: bytes of names that are not text reach neither the terminal nor JSON" {
	local dir=$BATS_TEST_TMPDIR lib

	need_tool iconv
	lib=$dir/$(printf 'lib\377\033[31m.so')
	cp "$FIX/stripped/libfix.so.1" "$lib"
	patch_file "$lib" fix_args6 "$(printf 'fix_\377\033[7m')"
	patch_file "$lib" fix_recurse "$(printf 'fix_r\302\233urse')"
	patch_file "$lib" libfix.so.1 "$(printf 'lib\033[5m.so\376')"
	fsn attach g 'fix_*' --lib "$lib" --dry-run
	assert_clean "$BATS_TEST_TMPDIR/.out"
	assert_clean "$BATS_TEST_TMPDIR/.err"
	assert_output_match "^fix_add "
	fsn attach g 'fix_*' --lib "$lib" --dry-run --json
	assert_clean "$BATS_TEST_TMPDIR/.out"
	assert_json_true '.[0].functions | map(.name) | index("fix_add") != null
		and all(test("^[a-zA-Z_0-9@]+$"))'
	fsn -s 1 attach g nosuch --lib "$lib" --dry-run --json
	assert_clean "$BATS_TEST_TMPDIR/.out"
	assert_clean "$BATS_TEST_TMPDIR/.err"
	fsn -s 1 attach g "$(printf 'a\377\033[1m')" --lib "$lib" --dry-run --json
	assert_clean "$BATS_TEST_TMPDIR/.out"
	assert_clean "$BATS_TEST_TMPDIR/.err"
	need_bpf
	fsn attach g fix_add --lib "$lib"
	assert_clean "$BATS_TEST_TMPDIR/.out"
	fsn list
	assert_clean "$BATS_TEST_TMPDIR/.out"
	fsn list functions g --json
	assert_clean "$BATS_TEST_TMPDIR/.out"
	assert_json '.[0].functions | map(.name)' '["fix_add"]'
	fsn detach g
}

@test "symbols: a file that claims millions of entries is rejected quickly" {
	local dir=$BATS_TEST_TMPDIR limit=524288 kind

	python3 - "$FIX/stripped/libfix.so.1" "$dir" <<-'END'
	import struct, sys
	good = open(sys.argv[1], 'rb').read()
	shoff = struct.unpack_from('<Q', good, 40)[0]
	shnum = struct.unpack_from('<H', good, 60)[0]
	def write(name, change):
	    data = bytearray(good)
	    change(data)
	    with open(f'{sys.argv[2]}/{name}', 'wb') as f:
	        f.write(data)
	        f.truncate(1 << 33)
	def each(data, wanted, field, value):
	    for i in range(shnum):
	        at = shoff + 64 * i
	        if struct.unpack_from('<I', data, at + 4)[0] == wanted:
	            struct.pack_into('<Q', data, at + field, value)
	write('symbols', lambda d: each(d, 11, 32, 24 << 27))
	write('strings', lambda d: each(d, 3, 32, 1 << 32))
	write('notes', lambda d: each(d, 7, 32, 1 << 32))
	write('sections', lambda d: (struct.pack_into('<H', d, 60, 0),
	                             struct.pack_into('<Q', d, shoff + 32, 1 << 24)))
	END
	# 512 MB of data: the need of memory is bounded, too. The sanitizer needs terabytes.
	! grep -q __asan_init "$FUNCSNOOP" || limit=unlimited
	for kind in symbols strings notes sections; do
		# shellcheck disable=SC2016
		capture -s any -t 30 bash -c 'ulimit -d "$0"; exec "$@"' "$limit" \
			"$FUNCSNOOP" attach g fix_add --lib "$dir/$kind" --dry-run
		[[ $status == [01] ]] || fail "status $status of $kind"
		[[ $status == 0 ]] || assert_stderr_match "^funcsnoop attach: .*damaged|truncated"
	done
}

# --- large files -------------------------------------------------------------------------------------

pages_cached() { # FILE: in the page cache
	python3 - "$1" <<-'END'
	import ctypes, mmap, os, sys
	size = os.path.getsize(sys.argv[1])
	m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), size, access=mmap.ACCESS_COPY)
	vec = (ctypes.c_ubyte * ((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE))()
	at = ctypes.addressof(ctypes.c_char.from_buffer(m))
	assert not ctypes.CDLL(None).mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), vec)
	print(sum(v & 1 for v in vec))
	END
}

# Like a GPU library: half a gigabyte of data, a few megabytes of code and names.
@test "symbols: a library of 500 MB is not read completely" {
	local lib=$BATS_TEST_TMPDIR/libbig.so pages

	need_tool cc python3
	cat >"$BATS_TEST_TMPDIR/big.c" <<-'END'
	int big_one(int a) { return a + 1; }
	__asm__(".section .rodata\n.globl big_data\nbig_data:\n.zero 500000000\n.text");
	END
	capture cc -O1 -g0 -fPIC -shared -o "$BATS_TEST_TMPDIR/full.so" "$BATS_TEST_TMPDIR/big.c"
	cp --sparse=always "$BATS_TEST_TMPDIR/full.so" "$lib"
	rm "$BATS_TEST_TMPDIR/full.so"
	capture dd if="$lib" iflag=nocache count=0 status=none
	assert_between "$(pages_cached "$lib")" 0 2000 "pages cached before"
	dry big_one --lib "$lib" --json
	assert_json '.[0].functions | map(.name)' '["big_one"]'
	pages=$(pages_cached "$lib")
	rm "$lib"
	assert_between "$pages" 1 10000 "pages read of 122000"
}

# Far more than it takes: what grows with the square of the number would miss it.
@test "symbols: a dry run of 5,000 functions uses at most 10 s of CPU time" {
	local lib=$BATS_TEST_TMPDIR/libmany.so user sys

	need_tool cc
	for ((i = 0; i < 5000; i++)); do
		echo "int many_$i(int a) { return a + $i; }"
	done >"$BATS_TEST_TMPDIR/many.c"
	capture cc -O1 -g0 -fPIC -shared -o "$lib" "$BATS_TEST_TMPDIR/many.c"
	# shellcheck disable=SC2016
	capture bash -c 'TIMEFORMAT="%3U %3S"; time "$@" >"$0"' "$BATS_TEST_TMPDIR/many.json" \
		"$FUNCSNOOP" attach g 'many_*' --lib "$lib" --dry-run --json
	# shellcheck disable=SC2154
	read -r user sys <<<"${stderr//./}"
	assert_eq "$(jq '.[0].functions | length' "$BATS_TEST_TMPDIR/many.json")" 5000
	echo "# 5,000 functions: $((10#$user + 10#$sys)) ms of the processor" >&3
	assert_between $((10#$user + 10#$sys)) 1 10000 "ms of the processor"
}
