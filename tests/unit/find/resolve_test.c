// SPDX-License-Identifier: BSD-2-Clause
// FUNCTION arguments to functions: names, versions, patterns, demangled names, offsets.
#include "find/find.h"

#include <inttypes.h>

#include "scratch.h"
#include "tap.h"

static const char c_source[] =
	"int old_f(int a) { return a + 1; }\n"
	"int new_f(int a) { return a + 2; }\n"
	"__asm__(\".symver old_f,f@V1\\n.symver new_f,f@@V2\\n\");\n"
	"int twin(int a) { return a * 3; }\n"
	"int twin_alias(int a) __attribute__((alias(\"twin\")));\n"
	"int __chosen_fast(int a) { return a; }\n"
	"int __chosen_slow(int a) { return a * 1; }\n"
	"static void *choose(void) { return __chosen_fast; }\n"
	"int chosen(int a) __attribute__((ifunc(\"choose\")));\n"
	"int cold(int a) __asm__(\"task.cold\"); int cold(int a) { return a ^ 5; }\n"
	"int part(int a) __asm__(\"task.part.0\"); int part(int a) { return a ^ 6; }\n"
	"int task_one(int a) { return a + 7; }\n"
	"int task_two(int a) { return a + 8; }\n"
	"__asm__(\".globl mark\\nmark:\\n.byte 0x90,0xc3\\n\");\n"
	"extern int puts(const char *);\n"
	"int use(void) { return puts(\"\"); }\n";

static const char cpp_source[] =
	"namespace shop {\n"
	"struct Item { int p; };\n"
	"struct Cart {\n"
	"	Cart(int); ~Cart(); int add(const Item &, char *); int add(int);\n"
	"	int total() const; Cart &operator+=(int); int &operator[](int);\n"
	"	operator bool() const; template <class T> T get(T x); int v;\n"
	"};\n"
	"Cart::Cart(int x) : v(x) {} Cart::~Cart() { v = 0; }\n"
	"int Cart::add(const Item &i, char *) { return v += i.p; }\n"
	"int Cart::add(int x) { return v += x; }\n"
	"int Cart::total() const { return v; }\n"
	"Cart &Cart::operator+=(int y) { v += y; return *this; }\n"
	"int &Cart::operator[](int) { return v; }\n"
	"Cart::operator bool() const { return v; }\n"
	"template <class T> T Cart::get(T x) { return x + v; }\n"
	"template int Cart::get<int>(int); template long Cart::get<long>(long);\n"
	"template <class T> struct Box { T t; T open(int k) { return t + k; } };\n"
	"template struct Box<int>; template struct Box<double>;\n"
	"}\n"
	"namespace { __attribute__((noinline, used)) int hidden(int a) { return a + 1; } }\n"
	"int vector_add(const float *, int n) { return hidden(n); }\n"
	"int main() { return 0; }\n";

static struct libfind *finder;

static void build(void)
{
	struct libfind_opts opts = { .proc = scratch("proc"), .root = scratch("none") };

	scratch_file("c.c", c_source, strlen(c_source));
	scratch_file("m.map", "V1 { }; V2 { } V1;\n", 19);
	scratch_file("s.cc", cpp_source, strlen(cpp_source));
	scratch_run(
		"mkdir proc && "
		"cc -g0 -O1 -fPIC -shared -Wl,--version-script=m.map,-z,separate-code "
		"c.c -o libc1.so && "
		"c++ -g0 -O1 -no-pie s.cc -o shop && strip -o bare shop");
	finder = libfind_new(&opts);
}

/*
 * What becomes of requests in the libraries of @names: targets' names, each with '!' when
 * it is refused and '~' when it is of a pattern, or the error and its hint.
 */
static const char *resolve(const char *names, const struct request *reqs, size_t cnt)
{
	static char text[8192];
	__cleanup(targets_done) struct targets res = { 0 };
	__cleanup(objects_done) struct objects libs = { 0 };
	const struct request *each[8];
	_cleanup_free_ char *list = strdup(names);
	struct err err = { 0 };
	size_t at = 0;

	for (char *n = strtok(list, " "); n; n = strtok(NULL, " ")) {
		__cleanup(objects_done) struct objects found = { 0 };

		if (libfind_get(finder, scratch(n), &found, &err))
			return strcpy(text, err.msg);
		objects_add(&libs, found.object[0]);
	}
	for (size_t i = 0; i < cnt; i++)
		each[i] = &reqs[i];
	if (resolve_functions(finder, &libs, each, cnt, &res, &err)) {
		snprintf(text, sizeof(text), "%s%s%s", err.msg, err.hint[0] ? "; " : "",
			err.hint);
		return text;
	}
	text[0] = '\0';
	for (size_t i = 0; i < res.cnt; i++) {
		const struct target *t = &res.target[i];

		at += snprintf(text + at, sizeof(text) - at, "%s%s%s%s", i ? " | " : "",
			t->name, t->refused ? "!" : "", t->from_pattern ? "~" : "");
	}
	for (size_t i = 0; i < res.missing_cnt; i++)
		at += snprintf(
			text + at, sizeof(text) - at, " -%s", res.missing[i]->func);
	return text;
}

static const char *one(const char *libs, const char *func)
{
	struct request req = { .func = func };

	return resolve(libs, &req, 1);
}

static void test_names(void)
{
	struct request two[] = { { .func = "twin_alias" }, { .func = "twin" } };
	struct request named[] = { { .func = "twin", .name = "Twin" },
		{ .func = "task_one" } };

	is_str(one("libc1.so", "twin"), "twin", "a name is found");
	is_str(resolve("libc1.so", two, 2), "twin_alias",
		"two names of a function make one target, by the first");
	is_str(resolve("libc1.so", named, 2), "Twin | task_one", "a name may be given");
	is_str(one("libc1.so", "f"), "f", "a versioned name means the default");
	is_str(one("libc1.so", "f@V1"), "f@V1", "or the version that is given");
	is_str(one("libc1.so", "f@@V2"), "f@V2", "with one @ or two");
	ok(strstr(one("libc1.so", "f@V3"), "no function 'f@V3'"), "but no other");
	is_str(one("libc1.so", "mark"), "mark", "a label can be named");
	is_str(one("libc1.so", "task.part.0"), "task.part.0", "so can a part");
	ok(strstr(one("libc1.so", "task.cold"), "a cold part of a function"),
		"a cold part is refused");
	ok(strstr(one("libc1.so", "chosen"), "an IFUNC"), "an IFUNC is refused");
	ok(strstr(one("libc1.so", "chosen"),
		   "its implementations: '__chosen_fast', '__chosen_slow'"),
		"and what it may choose is named");
	ok(strstr(one("libc1.so", "puts"), "'puts' is only imported by"),
		"an import is told from a definition");
	ok(strstr(one("libc1.so", "task_oen"), "did you mean 'task_one'"),
		"a near name is suggested");
	ok(strstr(one("libc1.so shop", "nowhere"), "and 1 more"),
		"all libraries are told of");
	is_str(one("libc1.so", ""), "the name of a function is empty: ''",
		"an empty name is an error");
}

static void test_patterns(void)
{
	struct request regex[] = { { .func = "^task_(one|two)$", .regex = true } };
	struct request bad[] = { { .func = "task_(", .regex = true } };

	is_str(one("libc1.so", "task*"), "task.part.0~ | task_one~ | task_two~",
		"a glob matches functions and their clones, not cold parts");
	is_str(one("libc1.so", "tas[k]"), "task.part.0~", "a clone goes by its function's name");
	is_str(one("libc1.so", "*chosen*"), "__chosen_fast~ | __chosen_slow~ | chosen!~",
		"what it can't probe is left out with a reason");
	is_str(one("libc1.so", "twi*"), "twin~", "aliases are matched once");
	ok(strstr(one("libc1.so", "mar*"), "no function matches 'mar*'"),
		"labels are matched never");
	is_str(resolve("libc1.so", regex, 1), "task_one~ | task_two~",
		"a regular expression matches");
	ok(strstr(resolve("libc1.so", bad, 1), "bad regular expression"),
		"a bad one is an error");
	ok(strstr(one("libc1.so", "f*"), "f~ | f@V1~") ||
			strstr(one("libc1.so", "f*"), "f@V1~ | f~"),
		"old versions are matched under their own names");
}

static void test_demangled(void)
{
	static const struct {
		const char *func, *found;
	} cases[] = {
		{ "shop::Cart::total", "shop::Cart::total" },
		{ "shop::Cart::total()", "shop::Cart::total()" },
		{ "shop::Cart::total() const", "shop::Cart::total() const" },
		{ "shop::Cart::add(int)", "shop::Cart::add(int)" },
		{ "shop::Cart::add(shop::Item const&,char*)",
			"shop::Cart::add(shop::Item const&,char*)" },
		{ "shop::Cart::add",
			"shop::Cart::add(shop::Item const&, char*) | shop::Cart::add(int)" },
		{ "shop::Cart::operator[]", "shop::Cart::operator[]" },
		{ "shop::Cart::operator+=", "shop::Cart::operator+=" },
		{ "shop::Cart::operator bool", "shop::Cart::operator bool" },
		{ "shop::Cart::Cart", "shop::Cart::Cart" },
		{ "shop::Cart::~Cart", "shop::Cart::~Cart" },
		{ "shop::Cart::get", "shop::Cart::get<int> | shop::Cart::get<long>" },
		{ "shop::Cart::get<long>", "shop::Cart::get<long>" },
		{ "int shop::Cart::get<int>(int)", "int shop::Cart::get<int>(int)" },
		{ "shop::Cart::get<int>(int)", "shop::Cart::get<int>(int)" },
		{ "shop::Box<int>::open", "shop::Box<int>::open" },
		{ "shop::Box<*>::open",
			"shop::Box<int>::open~ | shop::Box<double>::open~" },
		{ "shop::Box::open", "shop::Box<int>::open | shop::Box<double>::open" },
		{ "(anonymous namespace)::hidden", "(anonymous namespace)::hidden" },
		{ "vector_add", "vector_add" },
		{ "vector*", "vector_add~" },
		{ "_Z10vector_addPKfi", "_Z10vector_addPKfi" },
		{ "shop::Cart::*add(*)",
			"shop::Cart::add(shop::Item const&, char*)~ | "
			"shop::Cart::add(int)~" },
		{ "main", "main" },
		{ "total", "shop::Cart::total" },
		{ "Cart::total", "shop::Cart::total" },
	};
	struct request regex[] = { { .func = "^shop::Cart::add\\(int",
		.regex = true } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		is_str(one("shop", cases[i].func), cases[i].found, cases[i].func);
	is_str(resolve("shop", regex, 1), "shop::Cart::add~",
		"a regular expression sees arguments");
	ok(strstr(one("shop", "shop::Cart::tota"), "did you mean 'shop::Cart::total'"),
		"a near demangled name is suggested");
	ok(strstr(one("shop", "totl"), "did you mean 'shop::Cart::total'"),
		"the whole name is suggested for its last part");
}

static void test_offsets(void)
{
	__cleanup(objects_done) struct objects libs = { 0 };
	__cleanup(targets_done) struct targets res = { 0 };
	const struct target *t;
	const struct request req = { .func = "twin" }, *const reqs = &req;
	char text[64];

	if (libfind_get(finder, scratch("libc1.so"), &libs, NULL) ||
		resolve_functions(finder, &libs, &reqs, 1, &res, NULL))
		return;
	t = &res.target[0];
	ok(!t->inside && t->func && t->addr == t->func->addr,
		"a function is its first byte");
	snprintf(text, sizeof(text), "+0x%" PRIx64, t->offset);
	is_str(one("libc1.so", text), "twin", "a file offset finds its function");
	snprintf(text, sizeof(text), "+%" PRIu64, t->offset + 1);
	is_str(one("libc1.so", text), "twin+0x1", "a place inside is shown as such");
	snprintf(text, sizeof(text), "twin@0x%" PRIx64, t->offset);
	is_str(one("libc1.so", text), "twin", "a name may be pinned to an offset");
	snprintf(text, sizeof(text), "twin@0x%" PRIx64, t->offset + 1);
	ok(strstr(one("libc1.so", text), "no function"), "and is not found at another");
	is_str(one("libc1.so", "twin+0x1"), "twin+0x1", "name+0xOFF is a place inside");
	ok(strstr(one("libc1.so", "twin+0x1000"), "beyond the function's end"),
		"but not behind the end");
	ok(strstr(one("libc1.so", "+0x0"), "is not in an executable segment"),
		"headers are no place for a probe");
	is_str(one("libc1.so", "+zz"), "bad file offset '+zz': +0xNUMBER is needed",
		"an offset is a number");
	ok(strstr(one("libc1.so shop", "+0x1000"), "2 libraries are meant"),
		"an offset needs one library");
	is_str(one("libc1.so", "twi*+0x1"), "'twi*+0x1': a pattern takes no offset",
		"patterns take none");
}

/* A stripped program has frames where functions begin. */
static void test_frames(void)
{
	__cleanup(objects_done) struct objects libs = { 0 };
	__cleanup(targets_done) struct targets res = { 0 };
	struct request req = { 0 };
	const struct request *const reqs = &req;
	struct plan_image img;
	uint64_t offset;
	char text[64];

	if (libfind_get(finder, scratch("bare"), &libs, NULL) ||
		elf_file_image(libs.object[0]->elf, &img, NULL) || img.fde_cnt < 3 ||
		elf_file_addr_to_offset(libs.object[0]->elf, img.fdes[2].start, &offset)) {
		ok(false, "a stripped program has frames");
		return;
	}
	snprintf(text, sizeof(text), "+0x%" PRIx64, offset);
	req.func = text;
	is_int(resolve_functions(finder, &libs, &reqs, 1, &res, NULL), 0,
		"an offset is enough in a stripped program");
	ok(res.cnt && !res.target[0].inside && !res.target[0].func,
		"a frame's start is a function's first byte");
	is_str(res.cnt ? res.target[0].name : NULL, text, "shown as it was asked for");
	ok(strstr(one("bare", "vector_add"), "bare is stripped"),
		"that names lead nowhere there is said");
}

static void test_libraries(void)
{
	char text[2 * PATH_MAX + 64];
	struct request reqs[] = { { .func = text }, { .func = "task_two" } };

	snprintf(text, sizeof(text), "%s:shop::Cart::total", scratch("shop"));
	is_str(resolve("libc1.so", reqs, 2), "shop::Cart::total | task_two",
		"a function may come with its library");
	snprintf(text, sizeof(text), "p:%s:vector_add", scratch("shop"));
	is_str(resolve("libc1.so", reqs, 2), "vector_add | task_two",
		"as bcc writes it, too");
	strcpy(text, "nosuchlib:f");
	ok(strstr(resolve("libc1.so", reqs, 2), "no library or program 'nosuchlib'"),
		"a library that is not there is an error");
	strcpy(text, "main");
	is_str(resolve("libc1.so shop", reqs, 2), "main | task_two",
		"names are looked for in all libraries");
}

static void test_presets(void)
{
	struct request reqs[] = {
		{ .func = "twin", .name = "one", .literal = true, .optional = true },
		{ .func = "absent", .name = "two", .literal = true, .optional = true },
		{ .func = "twin_alias",
			.name = "three",
			.literal = true,
			.optional = true },
		{ .func = "chosen", .name = "four", .literal = true, .optional = true },
		{ .func = "task*", .name = "five", .literal = true, .optional = true },
	};

	is_str(resolve("libc1.so", reqs, ARRAY_SIZE(reqs)),
		"one~ | four!~ -absent -task*",
		"a preset leaves out what is missing, and takes nothing for a glob");
	reqs[1].optional = false;
	ok(strstr(resolve("libc1.so", reqs, ARRAY_SIZE(reqs)), "no function 'absent'"),
		"what must be there is an error");
}

int main(void)
{
	scratch_begin();
	build();
	test_names();
	test_patterns();
	test_demangled();
	test_offsets();
	test_frames();
	test_libraries();
	test_presets();
	libfind_free(finder);
	return tap_done();
}
