# SPDX-License-Identifier: BSD-2-Clause
# Each example of other tracers' manuals is one `run`, as in man/examples/bcc.txt, and the
# counts match a debugger's. The C library is a copy that no other process maps.
# bats file_tags=bpf

load helpers

PAGE=$BATS_TEST_DIRNAME/../man/examples/bcc.txt
N=7

# A directory with a copy of libc.so.6.
need_copy() {
	need_bpf
	need_tool jq
	COPY=$BATS_TEST_TMPDIR/copy
	copy_libc "$FIX/call" "$COPY"
	sed "s|\"lib\": \"c\"|\"lib\": \"$COPY/libc.so.6\"|" \
		"$BATS_TEST_DIRNAME/../man/examples/libc.json" >"$BATS_TEST_TMPDIR/libc.json"
}

# The commands of the section, a line each, as they are typed.
ours() {
	sed -n "/^FUNCTIONS OF LIB/,/^EVENTS AND/s/^# funcsnoop //p" "$PAGE"
}

# A library whose functions have such names as Go gives them.
make_golib() {
	need_tool objcopy
	cp "$FIX/libfix.so" "$COPY/libfix.so.1"
	objcopy --redefine-sym fix_add=os.Open --redefine-sym 'fix_ret=os.(*File).Read' \
		"$COPY/libfix.so.1"
}

# Runs LINE while the fixture makes its calls; what it showed is in $output.
try_line() { # LINE
	local line=$1 does=libc

	[[ $line != *go:os* ]] || does=add
	LD_LIBRARY_PATH=$COPY start_bg call "$FIX/call" --wait --wait-end $does $N
	wait_ready call
	pid=$(bg_pid call)
	line=${line//libc.json/$BATS_TEST_TMPDIR/libc.json}
	line=${line/go:os/$COPY/libfix.so.1:os}
	line=${line/.\/test:read/$FIX/call:do_}
	line=$(sed -E "s/-p (181|1005|2780)/-p $pid/; s/-i [125]/-i 0.2/; s/ -d 10//
		s|(run \|'\|-r ')c:|\1$COPY/libc.so.6:|g" <<<"$line")
	echo "# $line"
	eval "start_bg run '$FUNCSNOOP' $line"
	poll_until is_counting
	tell call
	poll_until bg_says call '^done '
	poll_until has_shown
	kill -INT "$(bg_pid run)"
	wait_bg run
	tell call
	wait_bg call
	output=$(<"$(bg_out run)")
}

is_counting() {
	grep -q "$([[ $line == *--stream* ]] && echo watching || echo 'attached to')" "$(bg_err run)"
}

# Streams and intervals show calls when they come, the others at the end.
has_shown() {
	case $line in
	*'size > 20000'*) ;;
	*--stream*) [[ $(grep -c ' [a-z]*(' "$(bg_out run)") -ge $N ]] ;;
	*' -i '*) grep -qE '^malloc +[0-9]|^Function = ' "$(bg_out run)" ;;
	esac
}

@test "one-liners: each of bcc's on user functions is one run, and shows its calls" {
	local line pid theirs=0

	need_copy
	make_golib
	theirs=$(sed -n "/^FUNCTIONS OF LIB/,/^EVENTS AND/p" "$PAGE" |
		grep -cE '^(funccount|funclatency|argdist|trace) ')
	assert_eq "$(ours | wc -l)" "$theirs" "of each theirs and ours"
	while IFS= read -r line; do
		[[ $line != *k:* ]] || continue # 28-kernel.bats
		try_line "$line"
		case $line in
		*"arg1 == 16"*) assert_output_match "^malloc +$N " ;;
		*"size > 20000"*) assert_eq "$(grep -c '^[0-9:.]* .* malloc(' <<<"$output")" 0 ;;
		*"malloc --stream"*)
			assert_eq "$(grep -c '^[0-9:.]* .* malloc(size=16) = 0x' <<<"$output")" $N
			;;
		*go:os*) assert_output_match "^os[.]Open +$N " ;;
		*test:*) assert_output_match "^do_libc +$N " ;;
		*open*) assert_output_match '^Function = (__)?open(64)?$' ;;
		*printf*) assert_output_match '^Function = .*printf$' ;;
		*'alloc'*) assert_output_match '^malloc +[0-9]+ ' ;;
		*"write -p"*"--by fd"*) assert_output_match "^write +1 +[1-9]" ;;
		*"write --if"*"--by count"*) assert_output_match "^write +5 +[1-9]" ;;
		*"--by buf"*) assert_output_match "^write +line\\\\x0a +$N " ;;
		*"--by seconds"*) assert_output_match "^sleep +0 +$N " ;;
		*"--by result"*) assert_output_match "^read +1 +$N " ;;
		*"*sleep"*) assert_output_match '^Function = (__)?nanosleep$' ;;
		*read*hist*) assert_output_match '^Function = read$' ;;
		*'fork --count'*) assert_output_match "^fork +$N " ;;
		*fork*) assert_output_match "^ *$pid +call .* $N " ;;
		*) fail "what is shown by: $line" ;;
		esac
	done < <(ours)
}

# Alone: run probes the linker, where the debugger has a breakpoint.
# bats test_tags=alone
@test "run: counts every malloc of ls, as a debugger does" {
	local calls hits

	need_copy
	need_tool gdb
	mkdir "$BATS_TEST_TMPDIR/dir"
	touch "$BATS_TEST_TMPDIR/dir/"{a,b,c}
	cat >"$BATS_TEST_TMPDIR/count.py" <<-END
		import gdb
		lib = "$COPY/libc.so.6"
		gdb.execute("set confirm off")
		gdb.execute("set environment LD_LIBRARY_PATH $COPY")
		gdb.execute("set startup-with-shell off")
		gdb.execute("catch load libc")
		gdb.execute("run")
		maps = gdb.execute("info proc mappings", to_string=True)
		base = next(int(l.split()[0], 16) for l in maps.splitlines() if lib in l)
		gdb.execute("break *%#x" % (base + $(nm -D "$COPY/libc.so.6" | awk '$3 ~ /^malloc(@|$)/ { print "0x" $1; exit }')))
		gdb.execute("ignore 2 1000000")
		gdb.execute("continue")
		print("HITS", gdb.breakpoints()[-1].hit_count)
	END
	LC_ALL=C capture gdb -nx -batch -x "$BATS_TEST_TMPDIR/count.py" --args \
		"$(type -P ls)" "$BATS_TEST_TMPDIR/dir"
	hits=$(sed -n 's/^HITS //p' <<<"$output")
	[[ $hits -gt 0 ]] || fail "gdb counted nothing"
	LC_ALL=C fsn run "$COPY/libc.so.6:malloc" --count --format json \
		-o "$BATS_TEST_TMPDIR/run.json" -- env "LD_LIBRARY_PATH=$COPY" "$(type -P ls)" \
		"$BATS_TEST_TMPDIR/dir"
	assert_output "a
b
c"
	calls=$(jq '[.[].functions[].calls] | add' "$BATS_TEST_TMPDIR/run.json")
	assert_eq "$calls" "$hits" "calls of malloc, and gdb's hits"
}

@test "one-liners: each of bcc's on events and system calls is one run" {
	local events line cnt=0

	need_bpf
	need_tracefs
	need_fixture events
	events=$(realpath "$FIX/events")
	start_bg call "$FIX/call" --wait add 1
	wait_ready call
	while IFS= read -r line; do
		line=$(sed -E "s/-p (1337|185)/-p $(bg_pid call)/; s/-d 10/-d 0.1/
			s|u:node:gc[*]|u:$events:work*|; s|u:c:pthread_[a-z*]+|u:$events:tick|" <<<"$line")
		echo "# $line"
		eval "start_bg run '$FUNCSNOOP' $line"
		[[ $line == *"-d 0.1"* ]] || {
			poll_until is_counting
			kill -INT "$(bg_pid run)"
		}
		wait_bg run
		cnt=$((cnt + 1))
	done < <(sed -n '/^EVENTS AND/,$s/^# funcsnoop //p' "$PAGE")
	assert_eq "$cnt" 11
	tell call
	wait_bg call
}
