/* One argument of a command, as its section has it: text with fields of the payload in it.
 *
 *     --size={width:int}x{height:int}
 *
 *     {name}          a member of the payload (an object): a string, number or boolean; {customer.name} goes deeper
 *     {name:type}     int, number, bool, word (letters, digits and _ . @ + : , -), path (relative, without ".."), text (the default), any
 *     {name:a|b|c}    one of these
 *     {name?}         the argument is left out if there is no such member, or it is null
 *     {name...}       the argument is this field alone: an array, each element an argument of its own (with a type: {name...:int})
 *     {{ and }}       braces
 *
 * An argument is one argument whatever the payload holds: it is never split, and no shell sees it. One that would begin with "-" because of
 * what the payload holds is refused, since the command would take it for an option, unless its type is `any`. A NUL, which would cut it, is
 * refused always.
 */
#ifndef HANDLERS_TEMPLATE_H
#define HANDLERS_TEMPLATE_H

#include "base/alloc.h"
#include "base/json.h"

#define TEMPLATE_ARGUMENT_MAX (64u << 10) /* bytes of an argument */
#define TEMPLATE_ARGUMENTS_MAX 4096       /* arguments of a command, */
#define TEMPLATE_BYTES_MAX (512u << 10)   /* and their bytes */

typedef struct template template;

/* Reads a template. The text must live as long as it. INVALID: what is wrong with it. */
pawl_status template_parse(const char *text, pawl_arena *arena, template **out, pawl_error *err);
bool template_has_fields(const template *t);

/* Arguments of a command, in `vector` once arguments_end was called. */
typedef struct arguments {
    buf text;   /* one behind the other, each with its NUL */
    bool plain; /* they are for no command: a "-" means nothing */
    size_t count;
    char **vector; /* NULL-terminated */
} arguments;

void arguments_init(arguments *a, const pawl_allocator *allocator);
void arguments_done(arguments *a);
pawl_status arguments_add(arguments *a, const char *text, pawl_error *err);
/* Adds what the template makes of the payload: none, one, or many. INVALID: the payload does not fit, a sentence that says why. */
pawl_status arguments_fill(arguments *a, const template *t, json payload, pawl_error *err);
pawl_status arguments_end(arguments *a, pawl_error *err);

#endif
