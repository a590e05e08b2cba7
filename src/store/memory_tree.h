/* An ordered tree of nodes that live inside what they order. Insert, remove and search take O(log n); at either end, where
 * queues and histories grow and shrink, constant time on average. It never allocates, so it never fails.
 */
#ifndef STORE_MEMORY_TREE_H
#define STORE_MEMORY_TREE_H

#include <stdbool.h>

typedef struct tree_node {
    struct tree_node *parent, *child[2];
} tree_node;

/* Whether a stands before b; a strict and total order that does not change while a node is in the tree. */
typedef bool (*tree_order)(const tree_node *a, const tree_node *b);

typedef struct tree {
    tree_node *root, *first, *last;
    tree_order before;
} tree;

void tree_init(tree *t, tree_order before);
void tree_insert(tree *t, tree_node *node);
void tree_remove(tree *t, tree_node *node); /* must be in it */
tree_node *tree_next(const tree_node *node);
tree_node *tree_prev(const tree_node *node);

/* The first node that is not below the key, or NULL. Nodes below it must all stand before the others. */
typedef bool (*tree_below)(const tree_node *node, const void *key);
tree_node *tree_from(const tree *t, tree_below below, const void *key);

#endif
