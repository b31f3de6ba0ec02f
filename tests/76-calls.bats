# SPDX-License-Identifier: BSD-2-Clause
# Arguments and results of calls by their declared types, in the table, CSV and JSON.

load helpers

setup() {
	common_setup
	CONFIG=$BATS_TEST_TMPDIR/typed.json
	write_config
}

write_config() {
	local name type

	{
		cat <<-'END'
		{ "types": {
			"code_t":  { "base": "int", "error": "nonzero", "no_error": [3],
				"codes": { "0": "tyOk", "2": "tyBad", "3": "tyNotReady", "-1": "tyNegative" } },
			"enum_t":  { "base": "unsigned char", "codes": { "1": "tyOne", "200": "tyTwoHundred" } },
			"dim_t":   { "base": "struct", "size": 12, "members": "uint32_t" },
			"bytes_t": { "base": "struct", "size": 12, "members": "unsigned char" },
			"pair_t":  { "base": "struct", "size": 12 },
			"big_t":   { "base": "struct", "size": 24 },
			"words_t": { "base": "struct", "size": 144 },
			"half_t":  { "base": "struct", "size": 16 },
			"object":  { "base": "class" } },
		  "typed_func_sym": {
		END
		while read -r name type; do
			printf '"%s": { "symbol": "%s", "ret": "%s", "args": ["%s v"] },\n' \
				"$name" "$name" "$type" "$type"
		done <<-'END'
		ty_i8 int8_t
		ty_u8 uint8_t
		ty_i16 short
		ty_u16 unsigned short
		ty_i32 int
		ty_u32 unsigned
		ty_i64 long long
		ty_u64 size_t
		ty_bool bool
		ty_enum enum_t
		ty_code code_t
		ty_ptr void *
		END
		cat <<-'END'
		"ty_void":    { "symbol": "ty_void", "ret": "void", "args": ["object v"] },
		"ty_bare":    "ty_bare",
		"ty_name":    { "symbol": "ty_name", "ret": "object", "args": ["long"] },
		"ty_jump":    { "symbol": "ty_jump", "ret": "long", "args": ["long v"] },
		"ty_none":    { "symbol": "ty_none", "ret": "int", "args": [] },
		"ty_text":    { "symbol": "ty_text", "ret": "const char *", "args": ["const char *text"] },
		"ty_texts":   { "symbol": "ty_texts", "ret": "int",
			"args": ["const char *a", "int n", "const char *b", "const char *c"] },
		"ty_counted": { "symbol": "ty_counted", "ret": "long",
			"args": ["const char *a", "size_t n"] },
		"ty_product": { "symbol": "ty_product", "ret": "long",
			"args": ["const char *a", "size_t n", "size_t m"] },
		"ty_stack":   { "symbol": "ty_stack", "ret": "unsigned long",
			"args": ["int a", "int", "int c", "int d", "int e", "int f", "signed char small",
				"code_t code", "const char *text", "dim_t dim", "unsigned long last"] },
		"ty_deep":    { "symbol": "ty_deep", "ret": "int",
			"args": ["void *a", "int b", "int c", "int d", "int e", "int f", "words_t s0", "int s18",
				"const char *s19", "int s20", "const char *s21"] },
		"ty_mix":     { "symbol": "ty_mix", "ret": "int",
			"args": ["double x", "int a", "float y", "long b", "long double z", "short c"] },
		"ty_doubles": { "symbol": "ty_doubles", "ret": "int",
			"args": ["double a", "double b", "double c", "double d", "double e", "double f",
				"double g", "double h", "double i", "float j", "int n"] },
		"ty_dims":    { "symbol": "ty_dims", "ret": "unsigned", "args": ["const void *func", "dim_t grid",
			"dim_t block", "void **args", "size_t shared", "void *stream"] },
		"ty_struct":  { "symbol": "ty_struct", "ret": "long",
			"args": ["pair_t pair", "big_t big", "bytes_t dim", "int n"] },
		"ty_double":  { "symbol": "ty_double", "ret": "double", "args": ["double x"] },
		"ty_make":    { "symbol": "ty_make", "ret": "dim_t", "args": ["unsigned x"] } },
		END
		printf '"lib": "%s/libtyped.so" }\n' "$FIX"
	} >"$CONFIG"
}

# Ways in which returns are traced: each must give the same results.
EXITS=("ret" "return" "return --link multi")

attach_typed() { # [EXIT [OPTION...]]
	# shellcheck disable=SC2086	# options
	fsn attach --config "$CONFIG" --slow 0ns --exit ${1:-auto}
	[[ -z ${1-} ]] || assert_ends typed "${1%% *}"
}

typed() {
	capture "$FIX/typed" "$@"
}

# The table's row of each call: RESULT|CALL.
table_calls() {
	fsn stats typed --slow
	sed -nE 's/^([-0-9]+ )?[0-9:]+[.][0-9]{6} +typed +[0-9]+\/[0-9]+ +~?[0-9.]+ [mun]?s  (.*[^ ]) +ty_/\2|ty_/p' <<<"$output"
}

# A line for each call: arguments, result, name of the result, failed. jq 1.6 rounds large
# numbers.
json_calls() {
	fsn stats typed --slow --json
	python3 -c '
import json, sys
for call in json.load(sys.stdin)["groups"][0]["slow_calls"]:
    print(call["function"], *(json.dumps(call[key], separators=(",", ":")).strip("\"")
        for key in ("args", "ret", "ret_name", "failed")))' <<<"$output"
}

# --- numbers -------------------------------------------------------------------------------------

@test "calls: integers have their type's width and sign, for all exits" {
	local exit

	need_bpf
	for exit in "${EXITS[@]}"; do
		attach_typed "$exit"
		typed ty_i8 0xdeadbeefffffff80 0xdeadbeef0000007f
		typed ty_u8 0xdeadbeefffffff80
		typed ty_i16 0xdeadbeefffff8000
		typed ty_u16 0xdeadbeefffff8000
		typed ty_i32 0xdeadbeef80000000
		typed ty_u32 0xdeadbeef80000000
		typed ty_i64 0x8000000000000000
		typed ty_u64 0x8000000000000000
		typed ty_bool 0xdeadbeefffffff00 0xdeadbeefffffff01
		assert_eq "$(json_calls)" 'ty_i8 {"v":-128} -128 null false
ty_i8 {"v":127} 127 null false
ty_u8 {"v":128} 128 null false
ty_i16 {"v":-32768} -32768 null false
ty_u16 {"v":32768} 32768 null false
ty_i32 {"v":-2147483648} -2147483648 null false
ty_u32 {"v":2147483648} 2147483648 null false
ty_i64 {"v":-9223372036854775808} -9223372036854775808 null false
ty_u64 {"v":9223372036854775808} 9223372036854775808 null false
ty_bool {"v":false} false null false
ty_bool {"v":true} true null false' "$exit"
		assert_eq "$(table_calls)" '-128|ty_i8(v=-128)
127|ty_i8(v=127)
128|ty_u8(v=128)
-32768|ty_i16(v=-32768)
32768|ty_u16(v=32768)
-2147483648|ty_i32(v=-2147483648)
2147483648|ty_u32(v=2147483648)
-9223372036854775808|ty_i64(v=-9223372036854775808)
9223372036854775808|ty_u64(v=9223372036854775808)
false|ty_bool(v=false)
true|ty_bool(v=true)' "$exit"
		fsn detach typed
	done
}

@test "calls: enumerators are shown by name, and codes without a name as numbers" {
	need_bpf
	attach_typed
	typed ty_enum 0xffffffffffffffc8 1 2
	typed ty_code 0xdeadbeef00000000 2 3 0xdeadbeefffffffff 7
	assert_eq "$(json_calls)" 'ty_enum {"v":"tyTwoHundred"} 200 tyTwoHundred false
ty_enum {"v":"tyOne"} 1 tyOne false
ty_enum {"v":2} 2 null false
ty_code {"v":"tyOk"} 0 tyOk false
ty_code {"v":"tyBad"} 2 tyBad true
ty_code {"v":"tyNotReady"} 3 tyNotReady false
ty_code {"v":"tyNegative"} -1 tyNegative true
ty_code {"v":7} 7 null true'
	assert_eq "$(table_calls)" '200 tyTwoHundred|ty_enum(v=tyTwoHundred)
1 tyOne|ty_enum(v=tyOne)
2|ty_enum(v=2)
0 tyOk|ty_code(v=tyOk)
2 tyBad|ty_code(v=tyBad)
3 tyNotReady|ty_code(v=tyNotReady)
-1 tyNegative|ty_code(v=tyNegative)
7|ty_code(v=7)'
	fsn detach typed
}

@test "calls: pointers are addresses or NULL; functions without types show six words" {
	local exit

	need_bpf
	for exit in "${EXITS[@]}"; do
		attach_typed "$exit"
		typed ty_ptr 0 0x7fffdeadbeef
		typed ty_void 0x1000
		typed ty_name 0xffffffffffffffff
		typed ty_bare 0xffffffffffffffff 0x7fffdeadbeef 12
		typed ty_none
		fsn stats typed --slow --json
		assert_json '.[0].slow_calls | map([.function, .args.v, .ret])' \
			'[["ty_ptr",null,null],["ty_ptr","0x7fffdeadbeef","0x7fffdeadbeef"],["ty_void","0x1000",null],["ty_name",null,"0xffffffffffffffff"],["ty_bare",null,-1],["ty_bare",null,140736929316591],["ty_bare",null,12],["ty_none",null,42]]'
		assert_json '.[0].slow_calls | map(select(.function == "ty_ptr") | .args | has("v")) | all' true
		assert_json '.[0].slow_calls | map(select(.function == "ty_bare") | .args.arg1)' \
			'["0xffffffffffffffff","0x7fffdeadbeef","0xc"]'
		assert_json '.[0].slow_calls | map(select(.function == "ty_bare") | .args | keys_unsorted) | unique' \
			'[["arg1","arg2","arg3","arg4","arg5","arg6"]]'
		assert_json '.[0].slow_calls | map(select(.function == "ty_name" or .function == "ty_none") | .args)' \
			'[{"arg1":-1},{}]'
		assert_eq "$(table_calls | sed 's/\(ty_bare([^,]*\),.*/\1/')" 'NULL|ty_ptr(v=NULL)
0x7fffdeadbeef|ty_ptr(v=0x7fffdeadbeef)
-|ty_void(v=0x1000)
0xffffffffffffffff|ty_name(-1)
0xffffffffffffffff|ty_bare(0xffffffffffffffff
0x7fffdeadbeef|ty_bare(0x7fffdeadbeef
12|ty_bare(0xc
42|ty_none()' "$exit"
		fsn detach typed
	done
}

@test "calls: floating-point and structure results are unknown" {
	need_bpf
	attach_typed ret
	typed ty_double ty_make
	assert_eq "$(json_calls | grep -v ty_u64)" 'ty_double {"x":null} null null false
ty_make {"x":3} null null false'
	assert_eq "$(table_calls | grep -v ty_u64)" '-|ty_double(x=?)
-|ty_make(x=3)'
	fsn detach typed
}

@test "calls: an untracked tail call is not slow, because it has no duration" {
	need_bpf
	attach_typed ret
	typed ty_jump
	assert_eq "$(json_calls | cut -d ' ' -f 1)" ty_u64
	fsn stats typed --json
	assert_json '.[0].functions[] | select(.name == "ty_jump") | [.calls, .untimed, .slow, .total_ns]' \
		'[1,1,null,null]'
	fsn detach typed
}

# --- text ----------------------------------------------------------------------------------------

# bats test_tags=core,arch
@test "calls: text of arguments is shown, with control characters escaped" {
	need_bpf
	attach_typed
	typed ty_text 'plain text' '' $'tab\there\n\e[31mred "quoted" back\\slash\x7f' \
		$'caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80' $'bro\xffken \xc3( \xed\xa0\x80 \xc2\x9b'
	fsn stats typed --slow --json
	assert_json '.[0].slow_calls | map(.args.text) | .[:4]' \
		'["plain text","","tab\there\n\u001b[31mred \"quoted\" back\\slash\u007f","café € 😀"]'
	# jq writes what is broken in its own way: compare code points.
	assert_json '.[0].slow_calls[4].args.text | explode' \
		'[98,114,111,92,120,102,102,107,101,110,32,92,120,99,51,40,32,92,120,101,100,92,120,97,48,92,120,56,48,32,155]'
	iconv -f UTF-8 -t UTF-8 <<<"$output" >/dev/null || fail "not UTF-8"
	assert_eq "$(table_calls | grep -c 'caf\\xc3\\xa9 \\xe2\\x82\\xac')" 1 \
		"lines in which what is not ASCII is escaped, with LC_ALL=C"
	assert_eq "$(LC_ALL=C.UTF-8 table_calls | sed 's/^0x[0-9a-f]*|//')" 'ty_text(text="plain text")
ty_text(text="")
ty_text(text="tab\x09here\x0a\x1b[31mred \"quoted\" back\\slash\x7f")
ty_text(text="café € 😀")
ty_text(text="bro\xffken \xc3( \xed\xa0\x80 \xc2\x9b")'
	fsn stats typed --slow --format csv
	assert_eq "$(grep -c $'[\e\x7f]' <<<"$output")" 0 "control characters"
	fsn detach typed
}

@test "calls: long text is truncated between characters" {
	local x93 x94 x95

	need_bpf
	x93=$(printf 'x%.0s' {1..93})
	x94=${x93}x x95=${x93}xx
	attach_typed
	typed ty_text "$x94" "$x95" "${x95}y" "$x94€" "$x93€" "${x93}éé"
	fsn stats typed --slow --json
	assert_json '.[0].slow_calls | map(.args.text)' \
		"[\"$x94\",\"$x95\",\"$x95\",\"$x94\",\"$x93\",\"${x93}é\"]"
	assert_eq "$(LC_ALL=C.UTF-8 table_calls | sed 's/^0x[0-9a-f]*|//')" "ty_text(text=\"$x94\")
ty_text(text=\"$x95\"...)
ty_text(text=\"$x95\"...)
ty_text(text=\"$x94\"...)
ty_text(text=\"$x93\"...)
ty_text(text=\"${x93}é\"...)"
	fsn detach typed
}

@test "calls: unreadable text is shown as a pointer, and at most two texts are kept" {
	need_bpf
	attach_typed
	typed ty_text @null @bad
	typed ty_texts
	fsn stats typed --slow --json
	assert_json '.[0].slow_calls | map([.args.text, .ret]) | .[:2]' '[[null,null],["0x8","0x8"]]'
	assert_json '.[0].slow_calls[2] | [.args.a, .args.n, .args.b, .ret]' '["first",-5,"second",-5]'
	assert_json_true '.[0].slow_calls[2].args.c | test("^0x[0-9a-f]+$")'
	assert_eq "$(table_calls | sed 's/c=0x[0-9a-f]*/c=POINTER/')" 'NULL|ty_text(text=NULL)
0x8|ty_text(text=0x8)
-5|ty_texts(a="first", n=-5, b="second", c=POINTER)'
	fsn detach typed
}

@test "calls: text with a length argument is shown with that length" {
	need_bpf
	attach_typed
	typed ty_counted ty_product
	assert_eq "$(table_calls)" '3|ty_counted(a="who", n=3)
0|ty_counted(a="", n=0)
9|ty_counted(a="whole", n=9)
5|ty_product(a="whole", n=1, m=5)'
	fsn stats typed --slow --json
	assert_json '.[0].slow_calls | map(.args.a)' '["who","","whole","whole"]'
	fsn detach typed
}

# The value of an argument that is an address, in JSON and in text.
by_pointer() { # NAME
	sed -E "s/(\"$1\":\")0x[0-9a-f]+\"/\1POINTER\"/; s/\b$1=0x[0-9a-f]+/$1=POINTER/"
}

# --- places --------------------------------------------------------------------------------------

@test "calls: stack arguments are shown, up to the twentieth word" {
	local exit words s0 deep='"s20":null,"s21":null' table='s20=?, s21=?'

	need_bpf
	# A perf link takes its time for each function.
	jq '.typed_func_sym |= { ty_stack, ty_deep }' "$CONFIG" >"$CONFIG.2"
	CONFIG=$CONFIG.2
	words=$(printf '0x%x,' {100..117})
	words=${words%,}
	s0="{$words}" words="[\"${words//,/\",\"}\"]"
	# Two registers more; a large structure is elsewhere, and its place is the argument.
	if [[ $(uname -m) == aarch64 ]]; then
		s0=POINTER words='"POINTER"'
		deep='"s20":120,"s21":"unseen"' table='s20=120, s21="unseen"'
	fi
	for exit in "${EXITS[@]}" "ret --link perf" "return --link perf"; do
		attach_typed "$exit"
		typed ty_stack ty_deep
		assert_eq "$(json_calls | by_pointer s0)" 'ty_stack {"a":1,"arg2":2,"c":3,"d":4,"e":5,"f":6,"small":-123,"code":"tyBad","text":"on the stack","dim":[7,8,9],"last":18364758544493064720} 18364758544493064720 null false
ty_deep {"a":null,"b":2,"c":3,"d":4,"e":5,"f":6,"s0":'"$words"',"s18":118,"s19":"the last",'"$deep"'} 118 null false' "$exit"
		assert_eq "$(table_calls | by_pointer s0)" '18364758544493064720|ty_stack(a=1, 2, c=3, d=4, e=5, f=6, small=-123, code=tyBad, text="on the stack", dim={7,8,9}, last=18364758544493064720)
118|ty_deep(a=NULL, b=2, c=3, d=4, e=5, f=6, s0='"$s0"', s18=118, s19="the last", '"$table"')' "$exit"
		fsn detach typed
	done
}

@test "calls: floating-point arguments use no integer register, and show on the stack" {
	local z=3.25 shown=3.25

	need_bpf
	# A long double is in a register there.
	[[ $(uname -m) == x86_64 ]] || z=null shown=?
	attach_typed
	typed ty_mix ty_doubles
	assert_eq "$(json_calls)" 'ty_mix {"x":null,"a":11,"y":null,"b":-12,"z":'$z',"c":13} 19 null false
ty_doubles {"a":null,"b":null,"c":null,"d":null,"e":null,"f":null,"g":null,"h":null,"i":-0.1,"j":2.5,"n":77} 77 null false'
	assert_eq "$(table_calls)" '19|ty_mix(x=?, a=11, y=?, b=-12, z='$shown', c=13)
77|ty_doubles(a=?, b=?, c=?, d=?, e=?, f=?, g=?, h=?, i=-0.1, j=2.5, n=77)'
	fsn detach typed
}

@test "calls: structures passed by value are read from registers and the stack" {
	local big='["0xaaaa","0xbbbb","0xcccc"]'

	need_bpf
	[[ $(uname -m) == x86_64 ]] || big='"POINTER"'
	attach_typed
	typed ty_dims ty_struct
	fsn stats typed --slow --json
	assert_json '.[0].slow_calls[0].args | del(.func)' \
		'{"args":null,"block":[256,1,4294967295],"grid":[1,2,3],"shared":1024,"stream":null}'
	assert_eq "$(json '.[0].slow_calls[1].args' | by_pointer big)" \
		'{"big":'"$big"',"dim":[4,0,0,0,5,0,0,0,6,0,0,0],"n":-3,"pair":["0x1122334455667788","0x9"]}'
	fsn detach typed
}

# --- what is not known ---------------------------------------------------------------------------

@test "calls: a call that started before --slow was set has no arguments" {
	need_bpf
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	start_bg hang "$FIX/call" hang 1
	wait_line hang '^blocked '
	fsn set g --slow 0ns
	tell hang
	wait_bg hang
	fsn stats g --slow --json
	assert_json '.[0].slow_calls | map(.args)' '[null]'
	fsn stats g --slow
	assert_output_match 'fix_hang\(\?\)$'
	fsn stats g --slow --format csv
	assert_output_match ',fix_hang,,,,[[:space:]]*$'
	fsn detach g
}

@test "calls: the time of day of a call has nanoseconds" {
	local before after

	need_bpf
	attach_typed
	before=$(date -u +%FT%T.%NZ)
	typed ty_i8 1
	after=$(date -u +%FT%T.%NZ)
	fsn stats typed --slow --json
	assert_json_true ".[0].slow_calls[0].time | test(\"^[0-9-]{10}T[0-9:]{8}[.][0-9]{9}Z$\")"
	assert_json_true ".[0].slow_calls[0].time | . > \"$before\" and . < \"$after\""
	fsn detach typed
}

# --- a real library ------------------------------------------------------------------------------

@test "cuda: arguments and results by the preset's types" {
	need_bpf
	need_cuda
	fsn attach cuda cudaMalloc cudaMemcpy cudaLaunchKernel --lib "$CUDART" --slow 0ns
	capture "$FIX/cudacall" "$CUDART" typed
	fsn stats cuda --slow --json
	assert_json '.[0].slow_calls | map([.function, .ret_name != null])' \
		'[["cudaMalloc",true],["cudaMemcpy",true],["cudaLaunchKernel",true]]'
	assert_json '.[0].slow_calls[0].args | [.size, (.devPtr | test("^0x"))]' '[1048576,true]'
	assert_json '.[0].slow_calls[1].args | [.count, .kind, (.src | test("^0x"))]' \
		'[4096,"cudaMemcpyHostToDevice",true]'
	assert_json '.[0].slow_calls[2].args | [.gridDim, .blockDim, .args, .sharedMem, .stream]' \
		'[[1,2,3],[32,1,1],null,512,null]'
	fsn detach cuda
}

@test "cuda: a failure is one of the call that failed, not of those that tell of it" {
	need_bpf
	need_cuda
	fsn attach cuda cudaLaunchKernel cudaPeekAtLastError cudaGetLastError --lib "$CUDART" --slow 0ns
	capture "$FIX/cudacall" "$CUDART" typed
	assert_eq "$(sed -n 's/^cuda[A-Z][a-zA-Z]* \([0-9]*\) x1$/\1/p' <<<"$output" | tail -n 3 |
		grep -c '^[1-9]')" 3 "calls that returned an error"
	fsn stats cuda --slow --json
	assert_json '.[0].functions | sort_by(.name) | map([.name, .calls, .errors])' \
		'[["cudaGetLastError",1,0],["cudaLaunchKernel",1,1],["cudaPeekAtLastError",1,0]]'
	assert_json '.[0].slow_calls | map([.failed, (.ret_name | test("^cudaError"))])' \
		'[[true,true],[false,true],[false,true]]'
	fsn detach cuda
}

# --- in the maps ---------------------------------------------------------------------------------

@test "maps: bpftool shows types, names of values, and members of slow calls" {
	local folder=$FUNCSNOOP_BPFFS/funcsnoop/typed values='map(.formatted.value)' func

	need_bpf
	need_tool bpftool
	attach_typed
	typed ty_code 2
	capture bpftool -j map dump pinned "$folder/funcs"
	func=$(jq -c "$values[] | select(.label == \"ty_code\")" <<<"$output")
	assert_eq "$(jq -c '[.ret > 0, .args - .ret, .arg_cnt]' <<<"$func")" '[true,1,1]'
	capture bpftool -j map dump pinned "$folder/types"
	assert_json "$values[$(jq .ret <<<"$func") - 1] | [.label, .kind, .size, .is_signed, .name_cnt]" \
		'["code_t","TYPE_INT",4,1,4]'
	assert_json "$values[$(jq .args <<<"$func") - 1] | [.label, .kind, .place, .index, .words]" \
		'["code_t v","TYPE_INT","PLACE_REG",0,1]'
	assert_json "$values[] | select(.label == \"dim_t block\") |
		[.kind, .size, .member_size, .words]" '["TYPE_STRUCT",12,4,2]'
	capture bpftool -j map dump pinned "$folder/names"
	assert_json "$values | map(select(.label | startswith(\"tyN\") or . == \"tyBad\")) |
		map([.value, .label])" '[[-1,"tyNegative"],[2,"tyBad"],[3,"tyNotReady"]]'
	capture bpftool -j map dump pinned "$folder/slow"
	assert_json "$values[0] | [.seq, .call.result, .call.args.arg[0], .call.comm]" \
		'[1,2,2,"typed"]'
	fsn detach typed
}
