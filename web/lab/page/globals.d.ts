/** The text of all these files, so that a worker can be made of it. */
declare const SOURCE: string;
