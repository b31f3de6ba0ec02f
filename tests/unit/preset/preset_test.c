// SPDX-License-Identifier: BSD-2-Clause
/* Presets and configuration files: what is read from them, and how errors name the place. */
#include "preset/preset.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"

/* --- a good file ---------------------------------------------------------------------- */

static const char design[] =
	"{ \"cuda_func_sym\":   { \"cudaMalloc\": \"cudaMalloc\", \"cudaFree\": \"cudaFree\" },\n"
	"  \"custom_sym\":      { \"vectorAdd\": \"vectorAdd\" },\n"
	"  \"libtorch_func_sym\": { \"linear_forward\": \"_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE\" },\n"
	"  \"cudnn_func_sym\":  { \"cudnnConvolutionForward\": \"cudnnConvolutionForward\" },\n"
	"  \"nccl_func_sym\":   { \"ncclAllReduce\": \"ncclAllReduce\" },\n"
	"  \"libs\": { \"custom\": \"/path/app\" } }\n";

static const char extras[] =
	"{\n"
	"  \"description\": \"ours\",\n"
	"  \"lib\": [\"one\", \"libtwo.so.3\"],\n"
	"  \"libs\": { \"b\": \"/opt/b\" },\n"
	"  \"types\": {\n"
	"    \"status_t\": { \"error\": \"nonzero\", \"no_error\": [7, 4294967295],\n"
	"                  \"codes\": { \"0\": \"OK\", \"7\": \"LATER\", \"-1\": \"NEVER\" } },\n"
	"    \"flags_t\": { \"base\": \"unsigned int\", \"codes\": { \"4294967295\": \"ALL\" } },\n"
	"    \"vec_t\": { \"base\": \"struct\", \"size\": 24 }\n"
	"  },\n"
	"  \"a_sym\": {\n"
	"    \"z\": { \"symbol\": \"z_impl\", \"lib\": \"three\", \"slow\": \"1.5ms\", \"ret\": \"status_t\",\n"
	"           \"args\": [\"const char *name\", \"vec_t v\", \"size_t n\", \"flags_t\"] },\n"
	"    \"open\": { \"ret\": \"int\", \"error\": \"negative\", \"args\": [] },\n"
	"    \"alloc\": { \"ret\": \"void *\", \"error\": \"null\", \"optional\": true, \"nothrow\": true },\n"
	"    \"quiet\": { \"ret\": \"status_t\", \"error\": \"none\" }\n"
	"  },\n"
	"  \"b_func_sym\": { \"f\": \"g\", \"wrap\": { \"ret\": \"ncclResult_t\" } }\n"
	"}\n";

/* Name of a code of @type, or NULL. */
static const char *code_name(const struct preset_type *type, int64_t code)
{
	for (size_t i = 0; type && i < type->code_cnt; i++)
		if (type->codes[i].code == code)
			return type->codes[i].name;
	return NULL;
}

/* The rules of @symbol of preset @name, which has it. */
static struct preset_memory memory_of(const struct preset_set *set, const char *symbol)
{
	for (size_t i = 0; i < set->groups[0].func_cnt; i++)
		if (!strcmp(set->groups[0].funcs[i].symbol, symbol))
			return set->groups[0].funcs[i].memory;
	return (struct preset_memory) {};
}

static void test_memory(void)
{
	_cleanup_set_ struct preset_set *heap = NULL, *cuda = NULL;
	_cleanup_set_ struct preset_set *own = parse(
		"{ \"cuda_sym\": { \"a\": \"cudaMalloc\", \"b\": { \"symbol\": \"cudaFree\","
		" \"args\": [\"int n\"] } } }");
	struct preset_memory m;

	if (!ok(!builtin_find("malloc", &heap, NULL) && !builtin_find("cuda", &cuda, NULL) && own,
		    "presets of memory are there"))
		return;
	m = memory_of(heap, "calloc");
	ok(m.allocates && !m.pointer.arg && m.size_cnt == 2 && m.size[0].arg == 1 &&
			m.size[1].arg == 2 && !m.frees,
		"calloc's result is as large as its arguments' product");
	m = memory_of(heap, "posix_memalign");
	ok(m.pointer.arg == 1 && m.pointer.is_pointed && m.size[0].arg == 3,
		"posix_memalign stores it");
	m = memory_of(heap, "realloc");
	ok(m.allocates && m.frees == 1 && m.size[0].arg == 2, "realloc does both");
	m = memory_of(heap, "free");
	ok(!m.allocates && m.frees == 1, "free only takes back");
	m = memory_of(cuda, "cudaMallocPitch");
	ok(m.size_cnt == 2 && m.size[0].is_pointed && m.size[0].arg == 2 && m.size[1].arg == 4,
		"a pitch is what is stored");
	m = memory_of(cuda, "cudaMalloc3D");
	ok(m.size_cnt == 1 && m.size[0].arg == 2 && !m.size[0].is_pointed, "so is an extent");
	ok(own->groups[0].funcs[0].memory.allocates && !own->groups[0].funcs[1].memory.frees,
		"a group takes the rules of a preset, unless its arguments are others");
}

static void test_design(void)
{
	_cleanup_set_ struct preset_set *set = parse(design);
	const struct preset_func *f;
	const struct preset_group *g;

	if (!ok(set && set->group_cnt == 5,
		    "the file of the documentation has five groups"))
		return;
	is_str(set->groups[0].name, "cuda", "groups are sorted by name");
	is_str(set->groups[4].name, "nccl", "to the last");
	is_str(set->groups[0].origin, "t.json", "a group knows its file");
	g = preset_set_group(set, "custom");
	is_str(g->lib_cnt == 1 ? g->libs[0] : NULL, "/path/app",
		"\"libs\" names a group's library");
	g = preset_set_group(set, "cuda");
	is_str(g->lib_cnt == 1 ? g->libs[0] : NULL, "cudart",
		"a group named like a preset takes the preset's library");
	is_str(g->funcs[0].name, "cudaFree", "functions are sorted by name");
	f = func_of(set, "cuda", "cudaMalloc");
	is_str(f->ret_text, "cudaError_t", "and what the preset knows of a symbol");
	is_str(f->nothrow_why, "preset cuda declares nothrow",
		"nothrow among it, with its source");
	is_str(f->arg_cnt == 2 ? f->args[1].name : NULL, "size", "and the arguments");
	is_str(code_name(f->ret.type, 2), "cudaErrorMemoryAllocation",
		"and the codes");
	f = func_of(set, "custom", "vectorAdd");
	ok(!f->nothrow_why && !f->ret_text && !f->has_args &&
			f->ret.kind == TYPE_UNKNOWN,
		"nothing is known of a plain symbol");
	is_str(func_of(set, "libtorch", "linear_forward")->symbol,
		"_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE",
		"a mangled symbol is kept");
	ok(!preset_set_group(set, "cublas"), "a group that isn't there is not found");
	ok(!func_of(set, "cuda", "cudaNothing"), "nor is a function");
}

static void test_extras(void)
{
	_cleanup_set_ struct preset_set *set = parse(extras);
	const struct preset_func *f;
	const struct preset_group *g;

	if (!ok(set && set->group_cnt == 2, "a file with every key is read"))
		return;
	g = preset_set_group(set, "a");
	is_str(g->description, "ours", "description");
	is_str(g->lib_cnt == 2 ? g->libs[1] : NULL, "libtwo.so.3", "several libraries");
	is_str(preset_set_group(set, "b")->libs[0], "/opt/b",
		"\"libs\" goes before \"lib\"");
	f = func_of(set, "a", "z");
	is_str(f->symbol, "z_impl", "symbol");
	is_str(f->lib_cnt == 1 ? f->libs[0] : NULL, "three", "library of one function");
	ok(f->has_slow && f->slow_ns == 1500000, "slow");
	ok(f->judge.kind == FSN_JUDGE_NONZERO && f->judge.width == 32 &&
			f->judge.ok_cnt == 2,
		"the type says how to judge");
	is_int(f->judge.ok[1], -1, "a code may be written without its sign");
	ok(f->ret.kind == TYPE_INT && f->ret.size == 4 && f->ret.is_signed &&
			f->ret.type,
		"an error type is an int unless it says otherwise");
	is_str(code_name(f->ret.type, -1), "NEVER",
		"a negative code has its name");
	is_str(code_name(f->ret.type, 1), NULL, "an unknown code has none");
	is_int((int64_t)f->arg_cnt, 4, "arguments");
	ok(f->args[0].value.kind == TYPE_STRING, "const char * is a string");
	ok(f->args[1].value.kind == TYPE_STRUCT && f->args[1].value.size == 24,
		"a structure");
	is_str(f->args[3].name, "", "an argument without a name");
	is_str(code_name(f->args[3].value.type,
		       preset_value_int(&f->args[3].value, 0xabcdffffffffull)),
		"ALL", "an unsigned code is found by the register's low half");
	f = func_of(set, "a", "open");
	ok(f->judge.kind == FSN_JUDGE_NEGATIVE && f->has_args && !f->arg_cnt,
		"a function can say what an error is, and that it takes nothing");
	f = func_of(set, "a", "alloc");
	ok(f->judge.kind == FSN_JUDGE_NULL && f->judge.width == 64,
		"null is an error");
	ok(f->optional, "optional");
	is_str(f->nothrow_why, "t.json declares nothrow", "nothrow of one function");
	ok(func_of(set, "a", "quiet")->judge.kind == FSN_JUDGE_NONE,
		"\"error\": \"none\" goes before the type's");
	is_str(func_of(set, "b", "f")->symbol, "g", "a plain symbol beside");
	f = func_of(set, "b", "wrap");
	is_str(code_name(f->ret.type, 1), "ncclUnhandledCudaError",
		"a type of a built-in preset is known in every file");
}

static void test_override(void)
{
	static const char text[] =
		"{ \"nothrow\": false, \"lib\": \"mine\",\n"
		"  \"types\": { \"big\": { \"base\": \"struct\", \"size\": 40 } },\n"
		"  \"cuda_sym\": {\n"
		"    \"free\": { \"symbol\": \"cudaFree\", \"slow\": \"1ms\", \"no_error\": [1] },\n"
		"    \"cudaMalloc\": { \"ret\": \"big\" },\n"
		"    \"cudaMemset\": { \"args\": [] } } }";
	_cleanup_set_ struct preset_set *set = parse(text);
	const struct preset_func *f;

	if (!ok(set, "a file that says other things than the preset is read"))
		return;
	is_str(preset_set_group(set, "cuda")->libs[0], "mine", "its library counts");
	f = func_of(set, "cuda", "free");
	is_str(f->name, "free", "its names count");
	ok(f->arg_cnt == 1 && f->has_slow && f->judge.ok_cnt == 2,
		"what it adds is added");
	ok(!f->nothrow_why, "\"nothrow\": false counts");
	f = func_of(set, "cuda", "cudaMalloc");
	ok(f->arg_cnt == 2 && f->judge.kind == FSN_JUDGE_NONE,
		"another return type counts");
#ifdef __x86_64__
	is_int(f->args[0].place.index, 1, "and moves the preset's arguments");
#endif
	f = func_of(set, "cuda", "cudaMemset");
	ok(f->has_args && !f->arg_cnt && f->judge.kind == FSN_JUDGE_NONZERO,
		"other arguments count");
}

/* --- presets -------------------------------------------------------------------------- */

static void put_file(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *f = NULL;

	if (asprintf(&path, "%s/%s", dir, name) >= 0 && (f = fopen(path, "w")))
		fputs(text, f);
}

static const struct preset_entry *entry_of(
	const struct preset_entry *e, size_t cnt, const char *name)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(e[i].name, name))
			return &e[i];
	return NULL;
}

static void test_user_presets(const char *home)
{
	struct preset_entry *entries = NULL;
	const struct preset_entry *e;
	struct preset_set *set = NULL;
	char dir[512], want[600];
	struct err err = { 0 };
	size_t cnt = 0;

	snprintf(dir, sizeof(dir), "%s/funcsnoop", home);
	mkdir(dir, 0700);
	snprintf(dir, sizeof(dir), "%s/funcsnoop/presets", home);
	mkdir(dir, 0700);
	put_file(dir, "mine.json",
		"{ \"lib\": \"m\", \"nothrow\": true, \"mine_sym\": { \"f\": \"f\" } }");
	put_file(dir, "nccl.json",
		"{ \"lib\": \"other\", \"nccl_sym\": { \"f\": \"f\" } }");
	put_file(dir, "wrong.json", "{ \"right_sym\": { \"f\": \"f\" } }");
	put_file(dir, "all.json", "{ \"all_sym\": { \"f\": \"f\" } }");

	ok(!preset_find("mine", &set, &err), "a user's preset is found");
	is_str(set ? set->groups[0].funcs[0].nothrow_why : NULL,
		"preset mine declares nothrow", "with its nothrow");
	snprintf(want, sizeof(want), "%s/mine.json", dir);
	is_str(set ? set->groups[0].origin : NULL, want, "and its path");
	preset_set_free(set);
	set = NULL;
	ok(!preset_find("nccl", &set, &err), "one of a built-in preset's name");
	is_str(set ? set->groups[0].libs[0] : NULL, "other", "comes before that");
	preset_set_free(set);
	set = NULL;
	snprintf(want, sizeof(want),
		"%s/wrong.json:1:3: preset 'wrong' can't define group 'right'", dir);
	is_int(preset_find("wrong", &set, &err), -EINVAL,
		"one that defines another group is wrong");
	is_str(err.msg, want, "and the error names it");
	is_int(preset_find("../presets/mine", &set, &err), -ENOENT,
		"a path is no preset's name");
	is_int(preset_find("cudart", &set, &err), -ENOENT, "an unknown preset");
	is_str(err.msg, "no preset 'cudart'", "is named");

	preset_list(&entries, &cnt);
	ok(cnt, "presets can be listed");
	e = entry_of(entries, cnt, "wrong");
	is_str(e ? e->error : NULL, want, "a wrong one with its error");
	e = entry_of(entries, cnt, "cuda");
	is_str(e ? e->origin : NULL, "built in", "a built-in one");
	ok(e && e->func_cnt > 400 && e->description && !e->error, "with what it has");
	ok(!entry_of(entries, cnt, "all"), "a name that no group can have is left out");
	for (size_t i = 1; i < cnt; i++)
		if (strcmp(entries[i - 1].name, entries[i].name) >= 0)
			ok(false, "%s before %s", entries[i - 1].name, entries[i].name);
	preset_list_free(entries, cnt);

	for (size_t i = 0; i < 4; i++) {
		static const char *const names[] = { "mine", "nccl", "wrong", "all" };

		snprintf(want, sizeof(want), "%s/%s.json", dir, names[i]);
		unlink(want);
	}
	rmdir(dir);
	snprintf(dir, sizeof(dir), "%s/funcsnoop", home);
	rmdir(dir);
}

static void test_builtin(void)
{
	/* Those before "curl" are nothrow, or libraries of C++. */
	static const char *const names[] = { "cuda", "cuda-driver", "cublas", "cublaslt",
		"cudnn", "nccl", "libtorch", "malloc", "tensors", "curl", "dns", "hip", "ibverbs",
		"level-zero", "mpi", "opencl", "openssl", "postgres", "pthread", "sqlite", "zlib" };
	static const char *const of_kernel[] = { "files", "syscalls", "vfs", "off-cpu",
		"run-queue", "cpu", "gpu", "gpu-copies", "gpu-graphs", "nvtx", "locks" };
	static const char *const kinds[] = { "s:", "s:", "k:", "w:", "w:", "cpu:", "gpu:",
		"gpu:", "gpu:", "gpu:", "s:" };
	const struct preset_func *f;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_set_ struct preset_set *set = NULL;
		struct err err = { 0 };
		bool throws = !strcmp(names[i], "libtorch") || !strcmp(names[i], "tensors");
		bool may_throw = i > 8;
		size_t good = 0;

		if (!ok(!builtin_find(names[i], &set, &err), "preset %s is built in",
			    names[i])) {
			printf("# %s\n", err.msg);
			continue;
		}
		for (size_t j = 0; j < set->groups[0].func_cnt; j++) {
			f = &set->groups[0].funcs[j];
			good += (may_throw || !f->nothrow_why == throws) && f->ret_text &&
				f->has_args;
		}
		ok(good == set->groups[0].func_cnt && set->groups[0].lib_cnt,
			"preset %s has a library, all arguments and results", names[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(of_kernel); i++) {
		_cleanup_set_ struct preset_set *set = NULL;
		size_t good = 0;

		if (!ok(!builtin_find(of_kernel[i], &set, NULL), "preset %s is built in",
			    of_kernel[i]))
			continue;
		for (size_t j = 0; j < set->groups[0].func_cnt; j++) {
			f = &set->groups[0].funcs[j];
			good += f->is_target && !strncmp(f->symbol, kinds[i], strlen(kinds[i])) &&
				!strcmp(f->symbol + strlen(kinds[i]), f->name);
		}
		ok(good == set->groups[0].func_cnt && !set->groups[0].lib_cnt,
			"preset %s has system calls, and no library", of_kernel[i]);
	}
	for (size_t i = 0; builtin_name(i); i++) {
		bool known = false;

		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			known |= !strcmp(names[j], builtin_name(i));
		for (size_t j = 0; j < ARRAY_SIZE(of_kernel); j++)
			known |= !strcmp(of_kernel[j], builtin_name(i));
		ok(known, "preset %s is one that the documentation names",
			builtin_name(i));
	}
}

/* Functions that report the error of an earlier call do not fail themselves. */
static void test_reporters(void)
{
	static const struct {
		const char *preset, *func;
	} reporters[] = { { "cuda", "cudaGetLastError" },
		{ "cuda", "cudaPeekAtLastError" }, { "cublas", "cublasGetError" }, { "nccl", "ncclGetLastError" },
		{ "cudnn", "cudnnGetLastErrorString" } };

	for (size_t i = 0; i < ARRAY_SIZE(reporters); i++) {
		_cleanup_set_ struct preset_set *set = NULL;
		struct err err = { 0 };

		if (!ok(!builtin_find(reporters[i].preset, &set, &err), "%s",
			    reporters[i].preset))
			continue;
		ok(func_of(set, reporters[i].preset, reporters[i].func)->judge.kind ==
				FSN_JUDGE_NONE,
			"%s has no errors of its own", reporters[i].func);
	}
}

int main(void)
{
	char home[] = "/tmp/preset-test.XXXXXX";

	if (!mkdtemp(home))
		return 1;
	/* The user's own presets must not change what is tested. */
	setenv("XDG_CONFIG_HOME", home, 1);
	test_design();
	test_memory();
	test_extras();
	test_override();
	test_builtin();
	test_reporters();
	test_user_presets(home);
	rmdir(home);
	return tap_done();
}
