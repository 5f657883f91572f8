/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <tpcl/version.h>

#include "build_info.h"
#include "commands.h"
#include "help.h"

const struct help_command help_commands[VERBS] = {
    [VERB_RUN] =
        {"MODEL (-p TEXT | -f FILE | --ids LIST) [OPTION]...", "generate text from a prompt",
         "MODEL is a .gguf file, or a folder with config.json and safetensors files. The text "
         "goes\n"
         "to standard output as it comes; statistics go to standard error.\n",
         "  tpcl run model.gguf -p 'What is gravity?'\n"
         "  tpcl run model.gguf --tp 2 -n 48 -p 'What is gravity?'    (starts mpiexec itself)\n"
         "  mpiexec -n 2 tpcl run model.gguf --temp 0.8 --top-p 0.95 --seed 7 -p 'A poem, please'\n"
         "  mpiexec -n 2 tpcl run folder --ids 1,2,3 --print-ids -n 16\n"
         "  TPCL_DEVICE=pocl tpcl run model.gguf --json -p Hello\n"},
    [VERB_SCORE] =
        {"MODEL --ids LIST --out FILE [OPTION]...", "write the logits of every position",
         "FILE is a safetensors file with one tensor, logits, F32 [ids, vocab]: every column of\n"
         "the head, padding rows too, unmasked. It is written under a temporary name and "
         "renamed.\n",
         "  tpcl score model.gguf --ids 1,2,3 --out logits.safetensors\n"
         "  mpiexec -n 3 tpcl score folder --kv f32 --ids 1,2,3 --out logits.safetensors\n"},
    [VERB_TOKENIZE] =
        {"MODEL [--special]", "text on standard input to token ids",
         "Reads all of standard input as bytes, strips nothing, adds neither BOS nor EOS, and\n"
         "prints a JSON array. Bytes that are not UTF-8 count as U+FFFD. Needs no mpiexec.\n",
         "  printf 'Hello world' | tpcl tokenize model.gguf\n"
         "  tpcl tokenize model.gguf --special < chat.txt > ids.json\n"},
    [VERB_DETOKENIZE] =
        {"MODEL [--ids LIST] [--special]", "token ids to text",
         "Takes a JSON array, or a list separated by commas or blanks, on standard input or as\n"
         "--ids, and writes the exact bytes without a newline. Needs no mpiexec.\n",
         "  echo '[19556, 905]' | tpcl detokenize model.gguf\n"
         "  tpcl detokenize model.gguf --special --ids 1,2,3\n"},
    [VERB_DEVICES] = {"[-l | --json]", "list the OpenCL devices",
                      "The number of a device is what --device takes. Needs no mpiexec.\n",
                      "  tpcl devices\n"
                      "  tpcl devices -l\n"
                      "  tpcl devices --json\n"},
    [VERB_INSPECT] =
        {"MODEL [--tp N] [OPTION]...", "show a model file, and each rank's part of it",
         "Prints metadata, tensors, and what each of N ranks would hold: rows, heads, bytes.\n"
         "Neither loads the weights nor needs mpiexec or a device.\n",
         "  tpcl inspect model.gguf\n"
         "  tpcl inspect folder --tp 3 --ctx 2048\n"
         "  tpcl inspect model.gguf --json\n"},
};

const struct help_code help_codes[] = {
    {0, "success"},
    {64, "usage: an option, a token id or a prompt that does not fit"},
    {65, "damaged or unsupported model file"},
    {66, "a file cannot be opened, or a program cannot be started"},
    {69, "no usable OpenCL device"},
    {70, "an OpenCL call failed, or a value is not finite"},
    {71, "out of memory, on the host or on a device"},
    {73, "the output file cannot be created"},
    {74, "reading or writing failed"},
    {75, "a rank was lost or did not answer in time"},
    {76, "ranks disagree"},
    {130, "interrupted"},
};
const size_t help_code_count = sizeof help_codes / sizeof help_codes[0];
const char help_code_note[] = "All ranks leave with one code, that of the lowest failing rank.\n";

/* Breaks `text` at blanks, continuing at column `indent`. */
static void put_wrapped(const char *text, int indent, int width)
{
    int column = indent;
    while (*text) {
        const int word = (int)strcspn(text, " ");
        if (column + word > width && column > indent) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        printf("%.*s", word, text);
        column += word;
        text += word;
        if (*text == ' ') {
            text++;
            if (column + 1 + (int)strcspn(text, " ") <= width) putchar(' ');
            column++;
        }
    }
    putchar('\n');
}

static void put_option(const struct option_row *row)
{
    char left[80], twin[64], text[400];
    char letter[] = "- ,";
    if (row->letter) letter[1] = row->letter;
    snprintf(left, sizeof left, "%s --%s%s%s", row->letter ? letter : "   ", row->name,
             row->argument ? " " : "", row->argument ? row->argument : "");
    option_twin(row, twin, sizeof twin);
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", row->help, row->fallback ? " (default: " : "",
             row->fallback ? row->fallback : "", row->fallback ? ")" : "", row->twin ? " [" : "",
             row->twin ? twin : "", row->twin ? "]" : "");
    const int length = printf("  %-24s", left);
    if (length > 26) printf("\n%26s", "");
    put_wrapped(text, 26, 100);
}

static void put_codes(void)
{
    printf("Exit codes:\n");
    for (size_t i = 0; i < help_code_count; i++)
        printf("  %3d  %s\n", help_codes[i].code, help_codes[i].meaning);
    printf("%s", help_code_note);
}

static void put_overview(void)
{
    printf(
        "Usage: tpcl COMMAND ...\n\n"
        "Runs one language model over several OpenCL devices, one MPI rank each.\n\nCommands:\n");
    for (int v = 0; v < VERBS; v++)
        printf("  %-12s%s\n", verb_name((enum verb)v), help_commands[v].what);
    printf("\nEach has its own help: tpcl COMMAND --help. tpcl --version shows versions.\n\n"
           "Examples:\n");
    for (int v = 0; v < VERBS; v++) {
        const char *examples = help_commands[v].examples;
        printf("%.*s\n", (int)strcspn(examples, "\n"), examples);
    }
    printf("\n");
    put_codes();
    printf("\nEvery option has a twin in the environment, shown in brackets in the help of its\n"
           "command: TPCL_ and its name in capitals. A flag is 1 or 0 there. The command line\n"
           "outweighs the environment. Others:\n");
    for (size_t i = 0; i < option_other_count; i++) {
        printf("  %-14s", option_others[i].name);
        put_wrapped(option_others[i].help, 16, 100);
    }
}

void help_print(enum verb verb)
{
    if (verb == VERBS) {
        put_overview();
        return;
    }
    printf("Usage: tpcl %s %s\n\n%s", verb_name(verb), help_commands[verb].arguments,
           help_commands[verb].more);
    printf("\nOptions [and their environment twins]:\n");
    for (size_t i = 0; i < option_count; i++)
        if (option_table[i].verbs & 1u << verb) put_option(&option_table[i]);
    printf("\nExamples:\n%s\n", help_commands[verb].examples);
    put_codes();
}

void version_print(void)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, "\n")] = '\0';
    for (char *c = mpi; *c; c++)
        if (*c == '\t') *c = ' ';
    printf("tpcl %s (commit %s)\n", tpcl_version_string(), BUILD_COMMIT);
    printf("OpenCL headers %s, used as 1.2\n", BUILD_OPENCL_HEADERS);
    printf("CLBlast %s\n", *BUILD_CLBLAST ? BUILD_CLBLAST : "of unknown version");
    printf("MPI: %s\n", mpi);
}
