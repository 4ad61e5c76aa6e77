"""What a client registers for, and its pending operations. Only here the kind of an interest is asked."""
