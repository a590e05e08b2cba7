/* Intrusive doubly linked list. A list is its head node; an unlinked node points at nothing. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct list {
    struct list *next, *prev;
} list;

/* clang-format off */
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
/* clang-format on */

static inline void list_init(list *head) { head->next = head->prev = head; }
static inline bool list_empty(const list *head) { return head->next == head; }
static inline bool list_linked(const list *node) { return node->next != NULL; }

static inline void list_insert_before(list *where, list *node)
{
    node->next = where;
    node->prev = where->prev;
    where->prev->next = node;
    where->prev = node;
}

static inline void list_append(list *head, list *node) { list_insert_before(head, node); }
static inline void list_prepend(list *head, list *node) { list_insert_before(head->next, node); }

static inline void list_remove(list *node)
{
    if (!node->next) return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}

static inline list *list_pop(list *head)
{
    list *node = head->next;
    if (node == head) return NULL;
    list_remove(node);
    return node;
}

/* Safe when the body removes `node`. */
#define list_each(node, head) \
    for (list *node = (head)->next, *node##_next = node->next; node != (head); node = node##_next, node##_next = node->next)

#endif
