/* Stands in for libFuzzer where that is not linked: runs the target once for every file of the folders named, and once for nothing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static int replay(const char *path)
{
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file) return perror(path), 1;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    int bad = ferror(file);
    fclose(file);
    if (bad) return fprintf(stderr, "%s: cannot be read\n", path), 1;

    /* A block of the very size, so that a sanitizer sees a read beyond it. */
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) return 1;
    for (size_t i = 0; i < size; i++) exact[i] = bytes[i];
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

static int replay_folder(const char *folder, int *count)
{
    int failed = 0;
    char path[4096];
    DIR *dir = opendir(folder);
    if (!dir) return perror(folder), 1;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= replay(path);
        ++*count;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, count = 0;
    FILE *out = stdout;
    if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) failed |= replay_folder(argv[i], &count);
    fprintf(out, "%d inputs\n", count);
    return failed || count == 0;
}
