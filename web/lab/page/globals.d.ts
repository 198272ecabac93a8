/** The text of all these files, from which a worker is created. */
declare const SOURCE: string;
